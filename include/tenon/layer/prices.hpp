// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "tenon/layer/sizes.hpp"
#include "tenon/placement/traffic.hpp"

namespace tenon::inline v0 {

/// What a program will send, from types and shapes alone: rows by axis, collective and phase, as
/// the ledger counts them, for the rank that the mesh is seen from. What is sent to experts depends
/// on the tokens: such rows are marked, and say what balanced routing would send and the most that
/// any can.
/// Thread-safety: a value.
template <class Mesh>
class prices_on {
 public:
  struct row {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;  ///< of a varying row: with balanced routing
    std::int64_t most = 0;   ///< the most there can be; `bytes` of a row that does not vary
    bool varies = false;     ///< the bytes depend on values, not on types and shapes alone
  };
  using key = std::tuple<std::string, std::string, std::string>;  // axis, collective, phase

  explicit prices_on(Mesh grid) : grid_(grid) {}

  const Mesh& grid() const noexcept { return grid_; }
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

  /// The transfers of a layer, with the extents of their dims from `sizes`.
  template <class... Transfers>
  void add(transfers<Transfers...>, [[maybe_unused]] const dim_sizes& sizes,
           [[maybe_unused]] std::string_view phase) {
    (add_one<Transfers>(sizes, phase), ...);
  }

  std::map<std::string, std::int64_t> bytes_by_axis() const {
    std::map<std::string, std::int64_t> sums;
    for (const auto& [k, r] : rows_) sums[std::get<0>(k)] += r.bytes;
    return sums;
  }

 private:
  template <class Transfer>
  void add_one(const dim_sizes& sizes, std::string_view phase) {
    if constexpr (requires { Transfer::add_to(*this, sizes, phase); }) {
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
    add(axis::name, name_of_move<moved>, phase,
        bytes_moved<Transfer>(sizes.of(typename Transfer::dims_type{}), grid_));
  }

  Mesh grid_;
  std::map<key, row> rows_;
};

}  // namespace tenon::inline v0
