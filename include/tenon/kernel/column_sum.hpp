// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"
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

namespace programs {

/// The sums of some columns over `column_sum_rows` rows.
template <element X>
struct sum_of_rows {
  static constexpr std::string_view name = "sum_of_rows";
  static constexpr int threads = 32;
  static constexpr int each = detail::pack_size<X>;
  static constexpr std::int64_t columns_each = std::int64_t{threads} * each;

  matrix_view<const X> x;
  wide<X>* sums;  ///< [blocks of rows, columns]

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t parts = (x.columns + columns_each - 1) / columns_each;
    const std::int64_t block = i / parts;
    const std::int64_t begin = i % parts * columns_each;
    const std::int64_t left = x.columns - begin;
    const std::int64_t count = left < columns_each ? left : columns_each;
    const std::int64_t first = block * detail::column_sum_rows;
    const std::int64_t last =
        first + detail::column_sum_rows < x.rows ? first + detail::column_sum_rows : x.rows;
    const X* const from = x.data + begin;
    wide<X>* const to = sums + block * x.columns + begin;
    const bool in_packs = detail::starts_at_sixteen(from) && x.stride % each == 0;
    const std::int64_t packs = in_packs ? count / each : 0;
    team.for_each(packs, [=, this](std::int64_t p) {
      wide<X> sum[each] = {};
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
      for (std::int64_t row = first; row < last; ++row) {
        detail::pack<X, each> term;
        term.load(from + row * x.stride + p * each);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (int k = 0; k < each; ++k) sum[k] += term.values[k];
      }
      for (int k = 0; k < each; ++k) to[p * each + k] = sum[k];
    });
    const std::int64_t rest = packs * each;
    team.for_each(count - rest, [=, this](std::int64_t c) {
      wide<X> sum = 0;
      for (std::int64_t row = first; row < last; ++row) {
        sum += widen(from[row * x.stride + rest + c]);
      }
      to[rest + c] = sum;
    });
  }
};

/// The sums of the blocks of rows, in their order, for some columns.
template <class Sum>
struct sum_of_blocks {
  static constexpr std::string_view name = "sum_of_blocks";
  static constexpr int threads = 32;
  const Sum* parts;  ///< [blocks, columns]
  std::int64_t blocks;
  std::int64_t columns;
  Sum* to;
  output how;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t begin = i * threads;
    const std::int64_t left = columns - begin;
    team.for_each(left < threads ? left : threads, [=, this](std::int64_t c) {
      Sum sum = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 16
#endif
      for (std::int64_t b = 0; b < blocks; ++b) sum += parts[b * columns + begin + c];
      to[begin + c] = how == output::accumulate ? to[begin + c] + sum : sum;
    });
  }
};

}  // namespace programs

namespace detail {

/// The same sums, to the last bit, on a device: each team has some columns of a block of rows.
template <element X>
void column_sum_on_device(std::span<wide<X>> sums, matrix_view<const X> x, output how) {
  using rows = programs::sum_of_rows<X>;
  using blocks = programs::sum_of_blocks<wide<X>>;
  const std::int64_t count = (x.rows + column_sum_rows - 1) / column_sum_rows;
  const std::int64_t parts = (x.columns + rows::columns_each - 1) / rows::columns_each;
  buffer<wide<X>> of_blocks(count * x.columns);
  for_each_device_team(count * parts, {}, rows{x, of_blocks.data()});
  for_each_device_team((x.columns + blocks::threads - 1) / blocks::threads, {},
                       blocks{of_blocks.data(), count, x.columns, sums.data(), how});
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
  if (device::of_this_rank() != nullptr) {
    return detail::column_sum_on_device<std::remove_const_t<X>>(
        sums, {x.data, x.rows, x.columns, x.stride}, how);
  }
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
