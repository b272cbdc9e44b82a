// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

namespace programs {

/// One row of `layer_norm`. A team of many lanes reads it once, into scratch, where `keeps`.
template <element T>
struct layer_norm {
  using W = wide<T>;
  static constexpr std::string_view name = "layer_norm";
  matrix_view<T> y;
  W* mean;
  W* inverse_deviation;
  matrix_view<const T> x;
  const T* gain;
  const T* bias;
  W share;
  W epsilon;
  bool keeps;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const T* from = x.row(row);
    if constexpr (Team::size() > 1) {
      if (keeps) {
        W* kept = team.template scratch<W>(x.columns);
        team.apply(
            x.columns, [](W& to, W value) { to = value; }, only_written{kept}, from);
        team.barrier();
        return normalise(team, row, static_cast<const W*>(kept));
      }
    }
    normalise(team, row, from);
  }

 private:
  template <class Team, class From>
  TENON_BOTH void normalise(Team& team, std::int64_t row, const From* from) const {
    const std::int64_t columns = x.columns;
    const W middle = team.template sum_of<W>(
                         columns, [](W value) { return value; }, from) *
                     share;
    const W variance = team.template sum_of<W>(
                           columns,
                           [=](W value) {
                             const W distance = value - middle;
                             return distance * distance;
                           },
                           from) *
                       share;
    const W inverse = W{1} / std::sqrt(variance + epsilon);
    team.apply(
        columns, [=](W& to, W value, W g, W b) { to = (value - middle) * inverse * g + b; },
        only_written{y.row(row)}, from, gain, bias);
    team.once([&] {
      mean[row] = middle;
      inverse_deviation[row] = inverse;
    });
  }
};

/// One row of `layer_norm_backward`.
template <element T>
struct layer_norm_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "layer_norm_backward";
  matrix_view<T> dx;
  matrix_view<const T> dy;
  matrix_view<const T> x;
  const T* gain;
  const W* mean;
  const W* inverse_deviation;
  W share;
  output how;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row, W* gain_sums, W* bias_sums) const {
    const std::int64_t columns = x.columns;
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const W middle = mean[row];
    const W inverse = inverse_deviation[row];
    const W along_one = team.template sum_of<W>(
                            columns, [](W slope, W g) { return slope * g; }, gradient, gain) *
                        share;
    const W along_x =
        team.template sum_of<W>(
            columns,
            [=](W slope, W g, W value) { return slope * g * ((value - middle) * inverse); },
            gradient, gain, from) *
        share;
    const auto slope_of = [=](W& gain_sum, W& bias_sum, W slope, W value, W g) {
      const W normal = (value - middle) * inverse;
      gain_sum += slope * normal;
      bias_sum += slope;
      return inverse * (slope * g - along_one - normal * along_x);
    };
    T* to = dx.row(row);
    if (how == output::accumulate) {
      team.apply(
          columns,
          [=](W& sum, W& bias_sum, W& out, W slope, W value, W g) {
            out += slope_of(sum, bias_sum, slope, value, g);
          },
          gain_sums, bias_sums, to, gradient, from, gain);
    } else {
      team.apply(
          columns,
          [=](W& sum, W& bias_sum, W& out, W slope, W value, W g) {
            out = slope_of(sum, bias_sum, slope, value, g);
          },
          gain_sums, bias_sums, only_written{to}, gradient, from, gain);
    }
  }
};

}  // namespace programs

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
  const std::int64_t scratch = detail::kept_row_bytes<sum_type>(columns);
  for_each_team(
      x.rows, {.scratch_bytes = scratch, .elements_each = columns},
      programs::layer_norm<T>{y, mean.data(), inverse_deviation.data(), x, gain.data(), bias.data(),
                              share, static_cast<sum_type>(epsilon), scratch > 0});
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
  blocks.run(programs::layer_norm_backward<T>{dx, dy, x, gain.data(), mean.data(),
                                              inverse_deviation.data(), share, how});
  blocks.add_to(0, gain_gradient);
  blocks.add_to(1, bias_gradient);
}

}  // namespace tenon::inline v0::kernel
