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

/// One row of `rms_norm`. A team of many lanes reads it once, into scratch, where `keeps`.
template <element T>
struct rms_norm {
  using W = wide<T>;
  static constexpr std::string_view name = "rms_norm";
  static constexpr int teams_at_once = 8;
  matrix_view<T> y;
  W* inverse_root;
  matrix_view<const T> x;
  const T* gain;
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
    const W square = team.template sum_of<W>(
                         x.columns, [](W value) { return value * value; }, from) *
                     share;
    const W inverse = W{1} / std::sqrt(square + epsilon);
    team.apply(
        x.columns, [=](W& to, W value, W g) { to = value * inverse * g; }, only_written{y.row(row)},
        from, gain);
    team.once([&] { inverse_root[row] = inverse; });
  }
};

/// One row of `rms_norm_backward`.
template <element T>
struct rms_norm_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "rms_norm_backward";
  matrix_view<T> dx;
  matrix_view<const T> dy;
  matrix_view<const T> x;
  const T* gain;
  const W* inverse_root;
  W share;
  output how;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row, W* gain_sums, W*) const {
    const std::int64_t columns = x.columns;
    const T* gradient = dy.row(row);
    const T* from = x.row(row);
    const W inverse = inverse_root[row];
    const W along_x =
        team.template sum_of<W>(
            columns, [=](W slope, W g, W value) { return slope * g * (value * inverse); }, gradient,
            gain, from) *
        share;
    const auto slope_of = [=](W& gain_sum, W slope, W value, W g) {
      const W normal = value * inverse;
      gain_sum += slope * normal;
      return inverse * (slope * g - normal * along_x);
    };
    T* to = dx.row(row);
    if (how == output::accumulate) {
      team.apply(
          columns,
          [=](W& sum, W& out, W slope, W value, W g) { out += slope_of(sum, slope, value, g); },
          gain_sums, to, gradient, from, gain);
    } else {
      team.apply(
          columns,
          [=](W& sum, W& out, W slope, W value, W g) { out = slope_of(sum, slope, value, g); },
          gain_sums, only_written{to}, gradient, from, gain);
    }
  }
};

}  // namespace programs

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
  const std::int64_t scratch = detail::kept_row_bytes<sum_type>(columns);
  for_each_team(x.rows, {.scratch_bytes = scratch, .elements_each = columns},
                programs::rms_norm<T>{y, inverse_root.data(), x, gain.data(), share,
                                      static_cast<sum_type>(epsilon), scratch > 0});
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
  blocks.run(
      programs::rms_norm_backward<T>{dx, dy, x, gain.data(), inverse_root.data(), share, how});
  blocks.add_to(0, gain_gradient);
}

}  // namespace tenon::inline v0::kernel
