// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tenon/kernel/math.hpp"
#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

template <class T>
inline constexpr T lowest = -std::numeric_limits<T>::infinity();

/// The larger of two; a NaN on the right is passed over and shows in the exponentials that follow.
struct larger {
  template <class T>
  TENON_BOTH T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

}  // namespace detail

/// The softmax of the rows of x [rows, columns], with the row's maximum taken off first. y may be
/// x. Sums are in the wide element.
template <element T>
void softmax(matrix_view<T> y, input<T> x) {
  using sum_type = wide<T>;
  detail::require_rows("softmax", y, x);
  const std::int64_t columns = x.columns;
  // The exponentials are kept wide until they are divided.
  const launch shape{.scratch_bytes = host_team::scratch_bytes<sum_type>(columns),
                     .elements_each = columns};
  for_each_team(x.rows, shape, [&](host_team& team, std::int64_t row) {
    const T* from = x.row(row);
    T* to = y.row(row);
    sum_type* grown = team.scratch<sum_type>(columns);
    const sum_type most = team.reduce(
        columns, detail::lowest<sum_type>, [=](std::int64_t j) { return widen(from[j]); },
        detail::larger{});
    team.for_each(columns, [=](std::int64_t j) { grown[j] = exponential(widen(from[j]) - most); });
    const sum_type inverse =
        sum_type{1} / team.sum<sum_type>(columns, [=](std::int64_t j) { return grown[j]; });
    team.for_each(columns, [=](std::int64_t j) { to[j] = T(grown[j] * inverse); });
  });
}

/// The backward of `softmax`: dx = y (dy - sum(y dy)) by rows. dx may be dy or y.
template <element T>
void softmax_backward(matrix_view<T> dx, input<T> dy, input<T> y) {
  using sum_type = wide<T>;
  detail::require_rows("softmax_backward", dx, y);
  detail::require_rows("softmax_backward", dx, dy);
  const std::int64_t columns = y.columns;
  for_each_team(y.rows, {.elements_each = columns}, [&](host_team& team, std::int64_t row) {
    const T* gradient = dy.row(row);
    const T* share = y.row(row);
    T* to = dx.row(row);
    const sum_type mean = team.sum<sum_type>(
        columns, [=](std::int64_t j) { return widen(gradient[j]) * widen(share[j]); });
    team.for_each(
        columns, [=](std::int64_t j) { to[j] = T(widen(share[j]) * (widen(gradient[j]) - mean)); });
  });
}

}  // namespace tenon::inline v0::kernel
