// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

/// Root-mean-square normalisation of the rows of x [rows, columns]: y = x / sqrt(mean(x^2) +
/// epsilon) * gain, with gain [columns]. Keeps 1/sqrt(...) [rows] for the backward, in the wide
/// element. y may be x.
/// Source: B. Zhang, R. Sennrich, Root mean square layer normalization, 2019.
template <element T>
void rms_norm(matrix_view<T> y, std::span<wide<T>> inverse_root, input<T> x, input_span<T> gain,
              double epsilon = 1e-5) {
  using sum_type = wide<T>;
  detail::require_rows("rms_norm", y, x);
  const std::int64_t columns = x.columns;
  const sum_type share = columns == 0 ? sum_type{0} : sum_type{1} / static_cast<sum_type>(columns);
  for_each_team(x.rows, {.elements_each = columns}, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    T* to = y.row(row);
    const T* g = gain.data();
    const sum_type square = team.sum<sum_type>(columns, [=](std::int64_t j) {
      return widen(from[j]) * widen(from[j]);
    }) * share;
    const sum_type inverse = sum_type{1} / std::sqrt(square + static_cast<sum_type>(epsilon));
    team.for_each(columns,
                  [=](std::int64_t j) { to[j] = T(widen(from[j]) * inverse * widen(g[j])); });
    inverse_root[static_cast<std::size_t>(row)] = inverse;
  });
}

/// The backward of `rms_norm`: dx from dy, x and the kept roots, replacing dx or added to it
/// (`how`); the gradient of gain [columns], wide, is added to. dx may be dy.
/// The result does not depend on the number of threads.
template <element T>
void rms_norm_backward(matrix_view<T> dx, std::span<wide<T>> gain_gradient, input<T> dy, input<T> x,
                       input_span<T> gain, input_span<wide<T>> inverse_root,
                       output how = output::overwrite) {
  using sum_type = wide<T>;
  detail::require_rows("rms_norm_backward", dx, x);
  detail::require_rows("rms_norm_backward", dx, dy);
  const std::int64_t columns = x.columns;
  const sum_type share = columns == 0 ? sum_type{0} : sum_type{1} / static_cast<sum_type>(columns);
  detail::row_blocks<sum_type> blocks(x.rows, columns, 1);
  blocks.run([&](host_team& team, std::int64_t row, sum_type* gain_sums) {
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const T* g = gain.data();
    T* to = dx.row(row);
    const sum_type inverse = inverse_root[static_cast<std::size_t>(row)];
    const sum_type along_x = team.sum<sum_type>(columns, [=](std::int64_t j) {
      return widen(gradient[j]) * widen(g[j]) * (widen(from[j]) * inverse);
    }) * share;
    const bool add = how == output::accumulate;
    team.for_each(columns, [=](std::int64_t j) {
      const sum_type normal = widen(from[j]) * inverse;
      const sum_type upstream = widen(gradient[j]);
      gain_sums[j] += upstream * normal;
      const sum_type value = inverse * (upstream * widen(g[j]) - normal * along_x);
      to[j] = T(value + (add ? widen(to[j]) : sum_type{0}));
    });
  });
  blocks.add_to(0, gain_gradient);
}

}  // namespace tenon::inline v0::kernel
