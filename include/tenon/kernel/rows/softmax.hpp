// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
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

namespace programs {

/// One row of `softmax`; the exponentials are kept wide until they are divided.
template <element T>
struct softmax {
  using W = wide<T>;
  static constexpr std::string_view name = "softmax";
  static constexpr int threads = 256;
  static constexpr int teams_at_once = 4;
  matrix_view<T> y;
  matrix_view<const T> x;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const std::int64_t columns = x.columns;
    const T* from = x.row(row);
    W* grown = team.template scratch<W>(columns);
    const W most = team.reduce_of(
        columns, detail::lowest<W>, [](W value) { return value; }, detail::larger{}, from);
    team.apply(
        columns, [=](W& to, W value) { to = exponential(value - most); }, only_written{grown},
        from);
    team.barrier();
    const W inverse =
        W{1} / team.template sum_of<W>(
                   columns, [](W value) { return value; }, static_cast<const W*>(grown));
    team.apply(
        columns, [=](W& to, W value) { to = value * inverse; }, only_written{y.row(row)},
        static_cast<const W*>(grown));
  }
};

/// One row of `softmax_backward`.
template <element T>
struct softmax_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "softmax_backward";
  matrix_view<T> dx;
  matrix_view<const T> dy;
  matrix_view<const T> y;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const T* gradient = dy.row(row);
    const T* share = y.row(row);
    const W mean = team.template sum_of<W>(
        y.columns, [](W slope, W value) { return slope * value; }, gradient, share);
    team.apply(
        y.columns, [=](W& to, W slope, W value) { to = value * (slope - mean); },
        only_written{dx.row(row)}, gradient, share);
  }
};

}  // namespace programs

/// The softmax of the rows of x [rows, columns], with the row's maximum taken off first. y may be
/// x. Sums are in the wide element.
template <element T>
void softmax(matrix_view<T> y, input<T> x) {
  using sum_type = wide<T>;
  detail::require_rows("softmax", y, x);
  const std::int64_t columns = x.columns;
  const launch shape{.scratch_bytes = host_team::scratch_bytes<sum_type>(columns),
                     .elements_each = columns};
  for_each_team(x.rows, shape, programs::softmax<T>{y, x});
}

/// The backward of `softmax`: dx = y (dy - sum(y dy)) by rows. dx may be dy or y.
template <element T>
void softmax_backward(matrix_view<T> dx, input<T> dy, input<T> y) {
  detail::require_rows("softmax_backward", dx, y);
  detail::require_rows("softmax_backward", dx, dy);
  for_each_team(y.rows, {.elements_each = y.columns}, programs::softmax_backward<T>{dx, dy, y});
}

}  // namespace tenon::inline v0::kernel
