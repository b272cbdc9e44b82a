// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// Rows that are summed before they are added to the total: a second level keeps rounding small.
inline constexpr std::int64_t column_sum_rows = 64;
/// Columns are shared out in multiples of a cache line.
inline constexpr std::int64_t column_sum_grain = 16;

/// How many columns one program takes, so that all threads have some.
inline std::int64_t columns_each(std::int64_t columns) noexcept {
  const std::int64_t share = (columns + threads() - 1) / threads();
  const std::int64_t grains = (share + column_sum_grain - 1) / column_sum_grain;
  return std::clamp<std::int64_t>(grains * column_sum_grain, column_sum_grain, 4096);
}

}  // namespace detail

/// The sums of the columns of x [rows, columns], into `sums` [columns] or added to it: the gradient
/// of a bias. Each column is summed in the order of its rows, whatever the number of threads.
template <class X>
void column_sum(std::span<wide<std::remove_const_t<X>>> sums, matrix_view<X> x,
                output how = output::accumulate) {
  static_assert(element<std::remove_const_t<X>>,
                "column_sum: the matrix has no floating-point element; give fp64, fp32 or bf16");
  using sum_type = wide<std::remove_const_t<X>>;
  const std::int64_t piece = detail::columns_each(x.columns);
  require(static_cast<std::int64_t>(sums.size()) == x.columns || shapes_only::active(),
          "column_sum: ", static_cast<std::int64_t>(sums.size()), " sums were given for ",
          x.columns, " columns; give as many");
  const launch shape{.scratch_bytes = 2 * host_team::scratch_bytes<sum_type>(piece),
                     .elements_each = x.rows * piece};
  for_each_range(x.columns, piece, shape,
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   const std::int64_t count = end - begin;
                   sum_type* part = team.scratch<sum_type>(count);
                   sum_type* total = team.scratch<sum_type>(count);
                   sum_type* to = sums.data() + begin;
                   team.for_each(count, [=](std::int64_t j) { total[j] = 0; });
                   for (std::int64_t first = 0; first < x.rows; first += detail::column_sum_rows) {
                     team.for_each(count, [=](std::int64_t j) { part[j] = 0; });
                     const std::int64_t last = std::min(x.rows, first + detail::column_sum_rows);
                     for (std::int64_t i = first; i < last; ++i) {
                       const X* from = x.row(i) + begin;
                       team.for_each(count, [=](std::int64_t j) { part[j] += widen(from[j]); });
                     }
                     team.for_each(count, [=](std::int64_t j) { total[j] += part[j]; });
                   }
                   if (how == output::accumulate) {
                     team.for_each(count, [=](std::int64_t j) { to[j] += total[j]; });
                   } else {
                     team.for_each(count, [=](std::int64_t j) { to[j] = total[j]; });
                   }
                 });
}

}  // namespace tenon::inline v0::kernel
