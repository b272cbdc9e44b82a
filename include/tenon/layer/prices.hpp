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
/// the ledger counts them, for the rank that the mesh is seen from.
/// Thread-safety: a value.
template <class Mesh>
class prices_on {
 public:
  struct row {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
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
  }

  /// The transfers of a layer, with the extents of their dims from `sizes`.
  template <class... Transfers>
  void add(transfers<Transfers...>, [[maybe_unused]] const dim_sizes& sizes,
           [[maybe_unused]] std::string_view phase) {
    (add_one<Transfers>(sizes, phase), ...);
  }

  /// What was priced on another mesh of the same ranks.
  template <class Other>
  void add_rows(const prices_on<Other>& other) {
    for (const auto& [k, r] : other.rows()) {
      row& mine = rows_[k];
      mine.calls += r.calls;
      mine.bytes += r.bytes;
    }
  }

  std::map<std::string, std::int64_t> bytes_by_axis() const {
    std::map<std::string, std::int64_t> sums;
    for (const auto& [k, r] : rows_) sums[std::get<0>(k)] += r.bytes;
    return sums;
  }

 private:
  template <class Transfer>
  void add_one(const dim_sizes& sizes, std::string_view phase) {
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
