// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "tenon/kernel/math.hpp"
#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

namespace programs {

/// One row of `top_k`.
template <std::floating_point W>
struct top_k {
  static constexpr std::string_view name = "top_k";
  static constexpr int threads = 32;
  matrix_view<std::int32_t> chosen;
  matrix_view<W> shares;
  matrix_view<const W> x;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const W* from = x.row(row);
    std::int32_t* to = chosen.row(row);
    W* share = shares.row(row);
    const std::int64_t k = chosen.columns;
    for (std::int64_t i = 0; i < k; ++i) {
      const auto larger_column = [=](std::int64_t a, std::int64_t b) {
        if (a < 0 || b < 0) return a < 0 ? b : a;
        if (from[a] < from[b]) return b;
        if (from[b] < from[a]) return a;
        return a < b ? a : b;
      };
      const std::int64_t best = team.reduce(
          x.columns, std::int64_t{-1},
          [=](std::int64_t j) {
            bool taken = false;
            for (std::int64_t before = 0; before < i; ++before) taken = taken || to[before] == j;
            return taken ? std::int64_t{-1} : j;
          },
          larger_column);
      team.barrier();
      team.once([&] { to[i] = static_cast<std::int32_t>(best); });
      team.barrier();
    }
    const W most = from[to[0]];
    team.for_each(k, [=](std::int64_t i) { share[i] = exponential(from[to[i]] - most); });
    team.barrier();
    const W inverse = W{1} / team.template sum<W>(k, [=](std::int64_t i) { return share[i]; });
    team.for_each(k, [=](std::int64_t i) { share[i] *= inverse; });
  }
};

/// One row of `top_k_backward`.
template <std::floating_point W>
struct top_k_backward {
  static constexpr std::string_view name = "top_k_backward";
  static constexpr int threads = 32;
  matrix_view<W> dx;
  matrix_view<const W> dshares;
  matrix_view<const W> shares;
  matrix_view<const std::int32_t> chosen;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    W* to = dx.row(row);
    const W* gradient = dshares.row(row);
    const W* share = shares.row(row);
    const std::int32_t* column = chosen.row(row);
    team.for_each(dx.columns, [=](std::int64_t j) { to[j] = 0; });
    const W mean = team.template sum<W>(shares.columns,
                                        [=](std::int64_t i) { return gradient[i] * share[i]; });
    team.barrier();
    team.for_each(shares.columns,
                  [=](std::int64_t i) { to[column[i]] = share[i] * (gradient[i] - mean); });
  }
};

}  // namespace programs

/// The `chosen.columns` largest values of each row of x [rows, columns], the largest first and of
/// equal values the one in the lower column: `chosen` [rows, k] gets their columns, `shares`
/// [rows, k] the softmax over them alone. That is the softmax over all columns, with the k largest
/// made to sum to 1.
/// Errors: bad_request when there are not k columns to choose.
template <std::floating_point W>
void top_k(matrix_view<std::int32_t> chosen, matrix_view<W> shares, input<W> x) {
  const std::int64_t k = chosen.columns;
  require(k >= 1 && k <= x.columns, "top_k: ", k, " of ", x.columns,
          " columns were asked for; ask for one or more of those that there are");
  require(chosen.rows == x.rows && shares.rows == x.rows && shares.columns == k,
          "top_k: ", chosen.rows, " x ", k, " choices and ", shares.rows, " x ", shares.columns,
          " shares were given for ", x.rows, " rows; give equal sizes");
  for_each_team(x.rows, {.elements_each = x.columns * k}, programs::top_k<W>{chosen, shares, x});
}

/// The backward of the shares: dx [rows, columns] is share (dshare - sum(share dshare)) in the
/// chosen columns and 0 in the others.
template <std::floating_point W>
void top_k_backward(matrix_view<W> dx, input<W> dshares, input<W> shares,
                    input<std::int32_t> chosen) {
  detail::require_rows("top_k_backward", dshares, shares);
  detail::require_rows("top_k_backward", chosen, shares);
  for_each_team(dx.rows, {.elements_each = dx.columns},
                programs::top_k_backward<W>{dx, dshares, shares, chosen});
}

}  // namespace tenon::inline v0::kernel
