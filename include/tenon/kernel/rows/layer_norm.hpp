// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

/// Layer normalisation of the rows of x [rows, columns]: y = (x - mean) / sqrt(variance + epsilon)
/// * gain + bias, with gain and bias [columns]. Keeps mean and 1/sqrt(variance + epsilon) [rows]
/// for the backward. Statistics are in the wide element. y may be x.
/// Source: J. L. Ba, J. R. Kiros, G. E. Hinton, Layer normalization, 2016.
template <element T>
void layer_norm(matrix_view<T> y, std::span<wide<T>> mean, std::span<wide<T>> inverse_deviation,
                input<T> x, input_span<T> gain, input_span<T> bias, double epsilon = 1e-5) {
  using sum_type = wide<T>;
  detail::require_rows("layer_norm", y, x);
  const std::int64_t columns = x.columns;
  const sum_type share = columns == 0 ? sum_type{0} : sum_type{1} / static_cast<sum_type>(columns);
  for_each_team(x.rows, {.elements_each = columns}, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    T* to = y.row(row);
    const T* g = gain.data();
    const T* b = bias.data();
    const sum_type middle =
        team.sum<sum_type>(columns, [=](std::int64_t j) { return widen(from[j]); }) * share;
    const sum_type variance = team.sum<sum_type>(columns, [=](std::int64_t j) {
      const sum_type distance = widen(from[j]) - middle;
      return distance * distance;
    }) * share;
    const sum_type inverse = sum_type{1} / std::sqrt(variance + static_cast<sum_type>(epsilon));
    team.for_each(columns, [=](std::int64_t j) {
      to[j] = T((widen(from[j]) - middle) * inverse * widen(g[j]) + widen(b[j]));
    });
    mean[static_cast<std::size_t>(row)] = middle;
    inverse_deviation[static_cast<std::size_t>(row)] = inverse;
  });
}

/// The backward of `layer_norm`: dx from dy, x and the kept statistics, replacing dx or added to it
/// (`how`); the gradients of gain and bias [columns], wide, are added to. dx may be dy.
/// The result does not depend on the number of threads.
template <element T>
void layer_norm_backward(matrix_view<T> dx, std::span<wide<T>> gain_gradient,
                         std::span<wide<T>> bias_gradient, input<T> dy, input<T> x,
                         input_span<T> gain, input_span<wide<T>> mean,
                         input_span<wide<T>> inverse_deviation, output how = output::overwrite) {
  using sum_type = wide<T>;
  detail::require_rows("layer_norm_backward", dx, x);
  detail::require_rows("layer_norm_backward", dx, dy);
  const std::int64_t columns = x.columns;
  const sum_type share = columns == 0 ? sum_type{0} : sum_type{1} / static_cast<sum_type>(columns);
  detail::row_blocks<sum_type> blocks(x.rows, columns, 2);
  blocks.run([&](host_team& team, std::int64_t row, sum_type* gain_sums, sum_type* bias_sums) {
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const T* g = gain.data();
    T* to = dx.row(row);
    const sum_type middle = mean[static_cast<std::size_t>(row)];
    const sum_type inverse = inverse_deviation[static_cast<std::size_t>(row)];
    const sum_type along_one = team.sum<sum_type>(columns, [=](std::int64_t j) {
      return widen(gradient[j]) * widen(g[j]);
    }) * share;
    const sum_type along_x = team.sum<sum_type>(columns, [=](std::int64_t j) {
      return widen(gradient[j]) * widen(g[j]) * ((widen(from[j]) - middle) * inverse);
    }) * share;
    const bool add = how == output::accumulate;
    team.for_each(columns, [=](std::int64_t j) {
      const sum_type normal = (widen(from[j]) - middle) * inverse;
      const sum_type upstream = widen(gradient[j]);
      gain_sums[j] += upstream * normal;
      bias_sums[j] += upstream;
      const sum_type value = inverse * (upstream * widen(g[j]) - along_one - normal * along_x);
      to[j] = T(value + (add ? widen(to[j]) : sum_type{0}));
    });
  });
  blocks.add_to(0, gain_gradient);
  blocks.add_to(1, bias_gradient);
}

}  // namespace tenon::inline v0::kernel
