// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "tenon/base/element.hpp"
#include "tenon/kernel/row_places.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/seen_by_host.hpp"
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
  // On the host, by its C library's functions: then all ranks have the same bits.
  buffer<S> cosine(count * half, place::host);
  buffer<S> sine(count * half, place::host);
  {
    const computes_on host(nullptr);
    for_each_team(count, {.elements_each = 32 * half}, [&](host_team&, std::int64_t s) {
      const auto at = static_cast<double>(position_of(s));
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            at * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
        cosine[s * half + i] = static_cast<S>(std::cos(angle));
        sine[s * half + i] = static_cast<S>(std::sin(angle));
      }
    });
  }
  return {count, head_width, moved_in(std::move(cosine)), moved_in(std::move(sine))};
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

namespace programs {

/// A row of `rotate`.
template <element T>
struct rotate {
  static constexpr std::string_view name = "rotate";
  matrix_view<T> x;
  const wide<T>* cosine;  ///< [places, half]
  const wide<T>* sine;
  std::int64_t half;  ///< of the width of a head
  wide<T> sign;
  row_places angle_of;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const auto turn = [by = sign](wide<T>& first, wide<T>& second, wide<T> cos, wide<T> sin) {
      const wide<T> a = first;
      const wide<T> b = second;
      const wide<T> turned = by * sin;
      first = a * cos - b * turned;
      second = b * cos + a * turned;
    };
    const std::int64_t heads = x.columns / (2 * half);
    const wide<T>* const c = cosine + angle_of(row) * half;
    const wide<T>* const s = sine + (c - cosine);
    if constexpr (Team::size() == 1) {
      for (std::int64_t head = 0; head < heads; ++head) {
        T* const first = x.row(row) + 2 * head * half;
        team.apply(half, turn, first, first + half, c, s);
      }
    } else {
      // All heads at once: one has too few pairs for the lanes of a team.
      constexpr int each = detail::pack_size<T>;
      T* const start = x.row(row);
      if (half % each == 0 && detail::starts_at_sixteen(start)) {
        const std::int64_t packs = half / each;
        team.for_each(heads * packs, [=, this](std::int64_t p) {
          const std::int64_t i = p % packs * each;
          T* const first = start + p / packs * 2 * half + i;
          detail::apply_to_pack<each>(turn, 0, first, first + half, c + i, s + i);
        });
      } else {
        team.for_each(heads * half, [=, this](std::int64_t p) {
          T* const first = start + p / half * 2 * half + p % half;
          detail::apply_to_one(turn, 0, first, first + half, c + p % half, s + p % half);
        });
      }
    }
  }
};

}  // namespace programs

/// Turns, in place, the pairs (i, i + head_width/2) of every head of x [rows, heads * head_width]:
/// row r by the row angle_of(r) of the angles.
template <element T>
void rotate(matrix_view<T> x, const rotary_angles<wide<T>>& angles, rotation way,
            const row_places& angle_of) {
  if (x.rows == 0 || x.columns == 0) return;
  require(angles.head_width > 0 && x.columns % angles.head_width == 0, "rotate: a matrix of ",
          x.rows, " x ", x.columns, " was given with angles for heads of width ", angles.head_width,
          "; give whole heads");
  const wide<T> sign = way == rotation::forward ? wide<T>{1} : wide<T>{-1};
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::rotate<T>{x, angles.cosine.data(), angles.sine.data(),
                                    angles.head_width / 2, sign, angle_of});
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
  rotate(x, angles, way, row_places{.rows = angles.count});
}

}  // namespace tenon::inline v0::kernel
