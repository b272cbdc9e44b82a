// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tenon/layer/sizes.hpp"
#include "tenon/placement/context_traffic.hpp"
#include "tenon/placement/pieces_traffic.hpp"
#include "tenon/placement/traffic.hpp"

namespace tenon::inline v0 {

/// The extents of attention over contexts for queries placed by `Query`, from sizes alone.
template <class Query, class Mesh>
context_extents context_extents_of(const dim_sizes& sizes, const Mesh& grid) {
  using query_dims = dims<batch, sequence, heads, head_width>;
  const layout<query_dims, Query> q(sizes.of(query_dims{}), grid);
  const std::int64_t all_kv = sizes.of<kv_heads>();
  return {.batch = q.template extent<batch>(),
          .sequence = q.global().template of<sequence>(),
          .heads = q.template of<heads>(),
          .heads_of_kv = all_kv == 0 ? 1 : q.global().template of<heads>() / all_kv,
          .width = q.template extent<head_width>(),
          .context = grid.template extent<axis::context>(),
          .rank = grid.template coordinate<axis::context>(),
          .heads_parallel = sizes.context.heads_parallel,
          .ring_window = sizes.context.ring_window};
}

/// The layout of a tensor as products use it, from sizes alone.
template <class Dims, class Placement, class Mesh>
layout<Dims, Placement> layout_in_use(const dim_sizes& sizes, const Mesh& grid) {
  layout<Dims, Placement> where(sizes.of(Dims{}), grid);
  for_each_axis(std::type_identity<Mesh>{}, [&]<class A>(A) {
    using held = state_on_t<Placement, A>;
    if constexpr (is_sharded<held>) {
      if (sizes.has_use<typename held::dim>()) {
        where = where.template with<A>(sizes.use_of<typename held::dim>(grid.template extent<A>()));
      }
    }
  });
  return where;
}

/// What a program will send: rows by axis, collective and phase, as the ledger counts them, of one
/// rank. What is sent to experts depends on the tokens: such rows are marked, and say what balanced
/// routing would send and the most that any can.
/// Thread-safety: a value.
class traffic_prices {
 public:
  struct row {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;  ///< of a varying row: with balanced routing
    std::int64_t most = 0;   ///< the most there can be; `bytes` of a row that does not vary
    bool varies = false;     ///< the bytes depend on values, not on types and shapes alone
  };
  using key = std::tuple<std::string, std::string, std::string>;  // axis, collective, phase

  const std::map<key, row>& rows() const noexcept { return rows_; }

  /// One call; nothing on an axis of one rank.
  void add(std::string_view axis, std::string_view collective, std::string_view phase,
           std::int64_t bytes) {
    row& r = rows_[key(axis, collective, phase)];
    r.calls += 1;
    r.bytes += bytes;
    r.most += bytes;
  }
  /// One call whose bytes depend on values.
  void add_varying(std::string_view axis, std::string_view collective, std::string_view phase,
                   std::int64_t balanced, std::int64_t most) {
    row& r = rows_[key(axis, collective, phase)];
    r.calls += 1;
    r.bytes += balanced;
    r.most += most;
    r.varies = true;
  }

  /// What was priced elsewhere for the same rank, on this mesh or another, so many times.
  void add_rows(const traffic_prices& other, std::int64_t times = 1) {
    for (const auto& [k, r] : other.rows()) {
      row& mine = rows_[k];
      mine.calls += r.calls * times;
      mine.bytes += r.bytes * times;
      mine.most += r.most * times;
      mine.varies = mine.varies || r.varies;
    }
  }

  std::map<std::string, std::int64_t> bytes_by_axis() const {
    std::map<std::string, std::int64_t> sums;
    for (const auto& [k, r] : rows_) sums[std::get<0>(k)] += r.bytes;
    return sums;
  }

 private:
  std::map<key, row> rows_;
};

/// The prices of layers on a mesh, from types and shapes alone, for the rank that the mesh is seen
/// from.
/// Thread-safety: a value.
template <class Mesh>
class prices_on : public traffic_prices {
 public:
  explicit prices_on(Mesh grid) : grid_(grid) {}

  const Mesh& grid() const noexcept { return grid_; }

  using traffic_prices::add;
  /// The transfers of a layer, with the extents of their dims from `sizes`.
  template <class... Transfers>
  void add(transfers<Transfers...>, [[maybe_unused]] const dim_sizes& sizes,
           [[maybe_unused]] std::string_view phase) {
    (add_one<Transfers>(sizes, phase), ...);
  }

 private:
  template <class Transfer>
  void add_one(const dim_sizes& sizes, std::string_view phase) {
    if constexpr (is_context_transfer<Transfer>) {
      const auto extents = context_extents_of<typename Transfer::placement_type>(sizes, grid_);
      const context_line line = context_price<Transfer>::line(extents);
      if (line.ranks == 1) return;
      add(line.axis, line.call, phase, context_price<Transfer>::bytes(extents));
    } else if constexpr (requires { Transfer::add_to(*this, sizes, phase); }) {
      Transfer::add_to(*this, sizes, phase);  // it knows its own price
    } else {
      add_move<Transfer>(sizes, phase);
    }
  }
  template <class Transfer>
  void add_move(const dim_sizes& sizes, std::string_view phase) {
    using moved = typename Transfer::move_type;
    using axis = axis_of_move<moved>;
    if (grid_.template extent<axis>() == 1) return;
    const auto extents = sizes.of(typename Transfer::dims_type{});
    if constexpr (detail::is_in_pieces<moved>) {
      // Weights travel as they are used: where a dim is spread, not in the owners' pieces.
      const auto before =
          layout_in_use<typename Transfer::dims_type, typename Transfer::placement_type>(sizes,
                                                                                         grid_);
      add(axis::name, name_of_move<moved>, phase,
          elements_moved<moved>(before) *
              static_cast<std::int64_t>(sizeof(typename Transfer::element_type)));
      return;
    }
    if constexpr (is_overlappable<Transfer>) {
      if (sizes.overlap_products) {
        const int messages = grid_.template extent<axis>() - 1;
        for (int i = 0; i < messages; ++i) {
          add(axis::name, "send", phase,
              i == 0 ? bytes_sent_in_pieces<Transfer>(extents, grid_) : 0);
        }
        return;
      }
    }
    add(axis::name, name_of_move<moved>, phase, bytes_moved<Transfer>(extents, grid_));
  }

  Mesh grid_;
};

}  // namespace tenon::inline v0
