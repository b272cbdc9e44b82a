// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>

#include "tenon/base/element.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::kernel {

/// Cosines and sines of rotary positions: row s belongs to the s-th local row of every sequence,
/// wherever that row stands in the whole sequence, or to place s. S is fp64 or fp32.
/// Thread-safety: const members may be called at once.
template <class S>
struct rotary_angles {
  static_assert(std::same_as<S, fp64> || std::same_as<S, fp32>,
                "rotary_angles: the element holds too few digits for angles; use fp32 or fp64");
  std::int64_t count = 0;       ///< rows of a sequence that are here
  std::int64_t head_width = 0;  ///< even
  buffer<S> cosine;             // [count, head_width / 2]
  buffer<S> sine;               // [count, head_width / 2]
};

/// Angles position * base^(-2i / head_width), i < head_width / 2, for `count` local rows; row s has
/// the position position_of(s). Angles are found in fp64.
/// Source: J. Su and others, RoFormer, 2021.
template <class S, std::invocable<std::int64_t> PositionOf>
rotary_angles<S> make_angles(PositionOf&& position_of, std::int64_t count, std::int64_t head_width,
                             double base = 10000.0) {
  require(head_width >= 0 && head_width % 2 == 0, "make_angles: heads of width ", head_width,
          " were asked for; rotary positions turn pairs, give an even width");
  const std::int64_t half = head_width / 2;
  rotary_angles<S> angles{count, head_width, buffer<S>(count * half), buffer<S>(count * half)};
  for_each_team(count, {.elements_each = 32 * half}, [&](host_team&, std::int64_t s) {
    const auto place = static_cast<double>(position_of(s));
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          place * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
      angles.cosine[s * half + i] = static_cast<S>(std::cos(angle));
      angles.sine[s * half + i] = static_cast<S>(std::sin(angle));
    }
  });
  return angles;
}

/// Angles of the positions begin .. begin+count-1.
template <class S>
rotary_angles<S> make_angles(std::int64_t begin, std::int64_t count, std::int64_t head_width,
                             double base = 10000.0) {
  return make_angles<S>([begin](std::int64_t s) { return begin + s; }, count, head_width, base);
}

/// Angles of the positions given, one for each local row of a sequence.
template <class S>
rotary_angles<S> make_angles(std::span<const std::int64_t> positions, std::int64_t head_width,
                             double base = 10000.0) {
  return make_angles<S>(
      [positions](std::int64_t s) { return positions[static_cast<std::size_t>(s)]; },
      static_cast<std::int64_t>(positions.size()), head_width, base);
}

/// Which way the pairs are turned: `backward` undoes `forward`, and turns the gradients.
enum class rotation : bool { forward, backward };

/// Turns, in place, the pairs (i, i + head_width/2) of every head of x [rows, heads * head_width]:
/// row r by the row angle_of(r) of the angles.
template <element T, std::invocable<std::int64_t> AngleOf>
void rotate(matrix_view<T> x, const rotary_angles<wide<T>>& angles, rotation way,
            AngleOf&& angle_of) {
  if (x.rows == 0 || x.columns == 0) return;
  require(angles.head_width > 0 && x.columns % angles.head_width == 0, "rotate: a matrix of ",
          x.rows, " x ", x.columns, " was given with angles for heads of width ", angles.head_width,
          "; give whole heads");
  using sum_type = wide<T>;
  const std::int64_t half = angles.head_width / 2;
  const std::int64_t heads = x.columns / angles.head_width;
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    const std::int64_t s = angle_of(row);
    const sum_type* cosine = angles.cosine.data() + s * half;
    const sum_type* sine = angles.sine.data() + s * half;
    const sum_type sign = way == rotation::forward ? sum_type{1} : sum_type{-1};
    for (std::int64_t head = 0; head < heads; ++head) {
      T* first = x.row(row) + head * angles.head_width;
      T* second = first + half;
      team.for_each(half, [=](std::int64_t i) {
        const sum_type a = widen(first[i]);
        const sum_type b = widen(second[i]);
        const sum_type turned = sign * sine[i];
        first[i] = T(a * cosine[i] - b * turned);
        second[i] = T(b * cosine[i] + a * turned);
      });
    }
  });
}

/// The same for x [batch * count, heads * head_width], with one row of angles for each row of a
/// sequence.
template <element T>
void rotate(matrix_view<T> x, const rotary_angles<wide<T>>& angles,
            rotation way = rotation::forward) {
  if (x.rows == 0 || x.columns == 0) return;
  require(angles.count > 0 && x.rows % angles.count == 0, "rotate: a matrix of ", x.rows, " x ",
          x.columns, " was given with angles for ", angles.count, " rows and heads of width ",
          angles.head_width, "; give whole sequences and whole heads");
  rotate(x, angles, way, [count = angles.count](std::int64_t row) { return row % count; });
}

}  // namespace tenon::inline v0::kernel
