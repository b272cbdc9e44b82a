// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tenon/layer/prices.hpp"
#include "tenon/placement/layout.hpp"
#include "tenon/placement/partition.hpp"

namespace tenon::inline v0 {

/// The move of tokens' rows from their ranks to the ranks of the experts that they chose, or back:
/// an all-to-all whose counts are known only when the tokens have chosen.
template <mesh_axis Axis>
struct expert_dispatch_of {};

namespace detail {

// The tokens of all ranks along `Axis` that stand in a line with the one that a mesh is seen from.
template <class Axis, class D, class P>
std::vector<std::int64_t> tokens_along(const layout<D, P>& where) {
  const auto& grid = where.grid();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(grid.template extent<Axis>()));
  for (int r = 0; r < grid.size(); ++r) {
    const auto other = grid.seen_from(r);
    if (other.template color<Axis>() != grid.template color<Axis>()) continue;
    const auto its = where.seen_from(r);
    tokens[static_cast<std::size_t>(other.template coordinate<Axis>())] =
        its.template extent<batch>() * its.template extent<sequence>();
  }
  return tokens;
}

// All ranks of the axis learn how many rows each has for each expert: 64-bit counts.
template <class Axis>
struct expert_counts_transfer {
  using move_type = all_gather<Axis, experts>;
  template <class Mesh>
  static void add_to(prices_on<Mesh>& prices, const dim_sizes& sizes, std::string_view phase) {
    const std::int64_t ranks = prices.grid().template extent<Axis>();
    if (ranks == 1) return;
    prices.add(Axis::name, "all_gather", phase, (ranks - 1) * sizes.of<experts>() * 8);
  }
};

// One exchange of rows [hidden], from tokens to experts or back: what balanced routing would send,
// and the most that any routing can.
template <class Axis, class E, class D, class P, bool ToExperts>
struct expert_rows_transfer {
  using move_type = expert_dispatch_of<Axis>;
  template <class Mesh>
  static void add_to(prices_on<Mesh>& prices, const dim_sizes& sizes, std::string_view phase) {
    const auto& grid = prices.grid();
    const int ranks = grid.template extent<Axis>();
    if (ranks == 1) return;
    const std::int64_t all = sizes.of<experts>();
    const std::int64_t k = sizes.experts_per_token;
    const auto pieces = partition::balanced(all, ranks);
    const int me = grid.template coordinate<Axis>();
    const region mine = pieces.of(me);
    const auto tokens = tokens_along<Axis>(layout<D, P>(sizes.of(D{}), grid));
    std::int64_t rows = 0;
    std::int64_t most = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t theirs = tokens[static_cast<std::size_t>(r)];
      const auto alike = partition::balanced(theirs * k, static_cast<int>(all));
      std::int64_t here = 0;
      for (std::int64_t e = mine.begin; e < mine.end(); ++e) {
        here += alike.of(static_cast<int>(e)).size;
      }
      if (ToExperts && r == me) {
        rows += theirs * k - here;
        most += theirs * std::min(k, all - mine.size);
      } else if (!ToExperts && r != me) {
        rows += here;
        most += theirs * std::min(k, mine.size);
      }
    }
    const std::int64_t bytes_of_row = sizes.of<hidden>() * static_cast<std::int64_t>(sizeof(E));
    prices.add_varying(Axis::name, "all_to_all", phase, rows * bytes_of_row, most * bytes_of_row);
  }
};

}  // namespace detail

}  // namespace tenon::inline v0
