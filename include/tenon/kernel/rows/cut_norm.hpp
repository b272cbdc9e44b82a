// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

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
TENON_BOTH inline W at_row_or_zero(const W* values, std::int64_t row) noexcept {
  return values == nullptr ? W{0} : values[row];
}

}  // namespace detail

namespace programs {

/// One row of `row_sums`, or of `row_square_sums`.
template <element T>
struct row_sums {
  using W = wide<T>;
  static constexpr std::string_view name = "row_sums";
  W* sums;
  matrix_view<const T> x;
  const W* mean;
  bool squared;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const T* from = x.row(row);
    W sum;
    if (squared) {
      const W middle = detail::at_row_or_zero(mean, row);
      sum = team.template sum_of<W>(
          x.columns,
          [=](W value) {
            const W distance = value - middle;
            return distance * distance;
          },
          from);
    } else {
      sum = team.template sum_of<W>(
          x.columns, [](W value) { return value; }, from);
    }
    team.once([&] { sums[row] = sum; });
  }
};

/// Values of `divide_by_columns`.
template <class W>
struct multiplied {
  static constexpr std::string_view name = "multiplied";
  W* values;
  W factor;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    const W by = factor;
    team.apply(
        end - begin, [=](W& value) { value *= by; }, values + begin);
  }
};

/// One row of `cut_norm`.
template <element T>
struct cut_norm {
  using W = wide<T>;
  static constexpr std::string_view name = "cut_norm";
  matrix_view<T> y;
  W* squares;
  matrix_view<const T> x;
  const W* mean;
  const T* gain;
  const T* bias;
  W share;
  W epsilon;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const W middle = detail::at_row_or_zero(mean, row);
    const W inverse = W{1} / std::sqrt(squares[row] * share + epsilon);
    team.barrier();
    if (bias == nullptr) {
      team.apply(
          x.columns, [=](W& to, W value, W g) { to = (value - middle) * inverse * g; },
          only_written{y.row(row)}, x.row(row), gain);
    } else {
      team.apply(
          x.columns, [=](W& to, W value, W g, W b) { to = (value - middle) * inverse * g + b; },
          only_written{y.row(row)}, x.row(row), gain, bias);
    }
    team.once([&] { squares[row] = inverse; });
  }
};

/// One row of `cut_norm_slopes`.
template <element T>
struct cut_norm_slopes {
  using W = wide<T>;
  static constexpr std::string_view name = "cut_norm_slopes";
  W* along_x;
  W* along_one;
  matrix_view<const T> dy;
  matrix_view<const T> x;
  const T* gain;
  const W* mean;
  const W* inverse;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const T* gradient = dy.row(row);
    const W middle = detail::at_row_or_zero(mean, row);
    const W scale = inverse[row];
    const W by_x = team.template sum_of<W>(
        x.columns, [=](W slope, W g, W value) { return slope * g * ((value - middle) * scale); },
        gradient, gain, x.row(row));
    team.once([&] { along_x[row] = by_x; });
    if (along_one == nullptr) return;
    const W by_one = team.template sum_of<W>(
        x.columns, [](W slope, W g) { return slope * g; }, gradient, gain);
    team.once([&] { along_one[row] = by_one; });
  }
};

/// One row of `cut_norm_backward`.
template <element T>
struct cut_norm_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "cut_norm_backward";
  matrix_view<T> dx;
  matrix_view<const T> dy;
  matrix_view<const T> x;
  const T* gain;
  const W* mean;
  const W* inverse;
  const W* along_x;
  const W* along_one;
  W share;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row, W* gain_sums, W* bias_sums) const {
    const W middle = detail::at_row_or_zero(mean, row);
    const W scale = inverse[row];
    const W one = detail::at_row_or_zero(along_one, row) * share;
    const W by_x = along_x[row] * share;
    team.apply(
        x.columns,
        [=](W& gain_sum, W& bias_sum, W& to, W slope, W value, W g) {
          const W normal = (value - middle) * scale;
          gain_sum += slope * normal;
          bias_sum += slope;
          to = scale * (slope * g - one - normal * by_x);
        },
        gain_sums, bias_sums, only_written{dx.row(row)}, dy.row(row), x.row(row), gain);
  }
};

}  // namespace programs

/// sums[row] = the sum of x(row, j). `x` [rows, columns here], `sums` [rows].
template <element T>
void row_sums(std::span<wide<T>> sums, input<T> x) {
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::row_sums<T>{sums.data(), x, nullptr, false});
}

/// sums[row] = the sum of (x(row, j) - mean[row])^2.
template <element T>
void row_square_sums(std::span<wide<T>> sums, input<T> x, input_span<wide<T>> mean) {
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::row_sums<T>{sums.data(), x, mean.data(), true});
}

/// values[row] /= all_columns: sums become means.
template <class W>
void divide_by_columns(std::span<W> values, std::int64_t all_columns) {
  for_each_range(std::ssize(values), 4096, {.elements_each = 4096},
                 programs::multiplied<W>{values.data(), detail::share_of_columns<W>(all_columns)});
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
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::cut_norm<T>{y, squares.data(), x, mean.data(), gain.data(), bias.data(),
                                      share, static_cast<W>(epsilon)});
}

/// What the backward sums over columns: along_x[row] of dy * gain * (x - mean) * inverse, and,
/// unless it is empty, along_one[row] of dy * gain.
template <element T>
void cut_norm_slopes(std::span<wide<T>> along_x, std::span<wide<T>> along_one, input<T> dy,
                     input<T> x, input_span<T> gain, input_span<wide<T>> mean,
                     input_span<wide<T>> inverse) {
  detail::require_rows("cut_norm_slopes", dy, x);
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::cut_norm_slopes<T>{along_x.data(), along_one.data(), dy, x, gain.data(),
                                             mean.data(), inverse.data()});
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
  blocks.run(programs::cut_norm_backward<T>{dx, dy, x, gain.data(), mean.data(), inverse.data(),
                                            along_x.data(), along_one.data(), share});
  blocks.add_to(0, gain_gradient);
  if (!bias_gradient.empty()) blocks.add_to(1, bias_gradient);
}

}  // namespace tenon::inline v0::kernel
