// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "tenon/kernel/rows/row_blocks.hpp"

// Layer and root-mean-square normalisation of rows of which this rank has some columns: what is
// summed over the columns here, and what follows from the sums over all `all_columns`. A norm
// without a mean leaves `mean`, `bias` and their gradients empty.
namespace tenon::inline v0::kernel {

namespace detail {

template <class W>
W share_of_columns(std::int64_t all_columns) noexcept {
  return all_columns == 0 ? W{0} : W{1} / static_cast<W>(all_columns);
}
// Of a row; what is left empty is 0.
template <class W>
W at_row_or_zero(std::span<const W> values, std::int64_t row) noexcept {
  return values.empty() ? W{0} : values[static_cast<std::size_t>(row)];
}

}  // namespace detail

/// sums[row] = the sum of x(row, j). `x` [rows, columns here], `sums` [rows].
template <element T>
void row_sums(std::span<wide<T>> sums, input<T> x) {
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    sums[static_cast<std::size_t>(row)] =
        team.sum<wide<T>>(x.columns, [=](std::int64_t j) { return widen(from[j]); });
  });
}

/// sums[row] = the sum of (x(row, j) - mean[row])^2.
template <element T>
void row_square_sums(std::span<wide<T>> sums, input<T> x, input_span<wide<T>> mean) {
  using W = wide<T>;
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    const W middle = detail::at_row_or_zero<W>(mean, row);
    sums[static_cast<std::size_t>(row)] = team.sum<W>(x.columns, [=](std::int64_t j) {
      const W distance = widen(from[j]) - middle;
      return distance * distance;
    });
  });
}

/// values[row] /= all_columns: sums become means.
template <class W>
void divide_by_columns(std::span<W> values, std::int64_t all_columns) {
  const W share = detail::share_of_columns<W>(all_columns);
  for (W& value : values) value *= share;
}

/// y = (x - mean) * inverse * gain + bias, where squares[row] is the sum over all columns of
/// (x - mean)^2 and becomes inverse = 1 / sqrt(squares / all_columns + epsilon). `gain`, `bias`
/// [columns here]. y may be x.
template <element T>
void cut_norm(matrix_view<T> y, std::span<wide<T>> squares, input<T> x, input_span<wide<T>> mean,
              input_span<T> gain, input_span<T> bias, std::int64_t all_columns,
              double epsilon = 1e-5) {
  using W = wide<T>;
  detail::require_rows("cut_norm", y, x);
  const W share = detail::share_of_columns<W>(all_columns);
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    T* to = y.row(row);
    const T* g = gain.data();
    const T* b = bias.data();
    const W middle = detail::at_row_or_zero<W>(mean, row);
    W& square = squares[static_cast<std::size_t>(row)];
    const W inverse = W{1} / std::sqrt(square * share + static_cast<W>(epsilon));
    if (b == nullptr) {
      team.for_each(x.columns, [=](std::int64_t j) {
        to[j] = T((widen(from[j]) - middle) * inverse * widen(g[j]));
      });
    } else {
      team.for_each(x.columns, [=](std::int64_t j) {
        to[j] = T((widen(from[j]) - middle) * inverse * widen(g[j]) + widen(b[j]));
      });
    }
    square = inverse;
  });
}

/// What the backward sums over columns: along_x[row] of dy * gain * (x - mean) * inverse, and,
/// unless it is empty, along_one[row] of dy * gain.
template <element T>
void cut_norm_slopes(std::span<wide<T>> along_x, std::span<wide<T>> along_one, input<T> dy,
                     input<T> x, input_span<T> gain, input_span<wide<T>> mean,
                     input_span<wide<T>> inverse) {
  using W = wide<T>;
  detail::require_rows("cut_norm_slopes", dy, x);
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const T* g = gain.data();
    const auto at = static_cast<std::size_t>(row);
    const W middle = detail::at_row_or_zero<W>(mean, row);
    const W scale = inverse[at];
    along_x[at] = team.sum<W>(x.columns, [=](std::int64_t j) {
      return widen(gradient[j]) * widen(g[j]) * ((widen(from[j]) - middle) * scale);
    });
    if (along_one.empty()) return;
    along_one[at] =
        team.sum<W>(x.columns, [=](std::int64_t j) { return widen(gradient[j]) * widen(g[j]); });
  });
}

/// The backward of `cut_norm` from those sums over all columns: dx, which may be dy, and the
/// gradients of gain and bias [columns here], wide, which are added to.
/// The result does not depend on the number of threads.
template <element T>
void cut_norm_backward(matrix_view<T> dx, std::span<wide<T>> gain_gradient,
                       std::span<wide<T>> bias_gradient, input<T> dy, input<T> x,
                       input_span<T> gain, input_span<wide<T>> mean, input_span<wide<T>> inverse,
                       input_span<wide<T>> along_x, input_span<wide<T>> along_one,
                       std::int64_t all_columns) {
  using W = wide<T>;
  detail::require_rows("cut_norm_backward", dx, x);
  detail::require_rows("cut_norm_backward", dx, dy);
  const W share = detail::share_of_columns<W>(all_columns);
  detail::row_blocks<W> blocks(x.rows, x.columns, 2);
  blocks.run([&](host_team& team, std::int64_t row, W* gain_sums, W* bias_sums) {
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const T* g = gain.data();
    T* to = dx.row(row);
    const W middle = detail::at_row_or_zero<W>(mean, row);
    const W scale = inverse[static_cast<std::size_t>(row)];
    const W one = detail::at_row_or_zero<W>(along_one, row) * share;
    const W by_x = along_x[static_cast<std::size_t>(row)] * share;
    team.for_each(x.columns, [=](std::int64_t j) {
      const W normal = (widen(from[j]) - middle) * scale;
      const W upstream = widen(gradient[j]);
      gain_sums[j] += upstream * normal;
      bias_sums[j] += upstream;
      to[j] = T(scale * (upstream * widen(g[j]) - one - normal * by_x));
    });
  });
  blocks.add_to(0, gain_gradient);
  if (!bias_gradient.empty()) blocks.add_to(1, bias_gradient);
}

}  // namespace tenon::inline v0::kernel
