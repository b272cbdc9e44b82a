// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "tenon/base/check.hpp"
#include "tenon/base/type_list.hpp"
#include "tenon/mesh/axis.hpp"

namespace tenon::inline v0 {

namespace detail {

template <class... Axes>
constexpr bool in_order() {
  constexpr int orders[] = {Axes::order..., 1 << 30};
  for (std::size_t i = 1; i < std::size(orders); ++i) {
    if (orders[i - 1] >= orders[i]) return false;
  }
  return true;
}

}  // namespace detail

/// A grid of ranks with named axes: the extents, and the coordinate of one rank in them. Pure
/// arithmetic, no communication. Ranks are numbered with the last axis fastest.
///
///   mesh<axis::data, axis::tensor> grid({2, 4}, 5);     // rank 5 of 2 x 4
///   grid.coordinate<axis::data>();                      // 1
///   grid.coordinate<axis::tensor>();                    // 1
///
/// A flat axis (`axis::data`) of a mesh that names its two parts (`axis::data_replicate`,
/// `axis::data_shard`) is the pair of them, outer first.
/// Thread-safety: a value; const members may be called at once.
template <mesh_axis... Axes>
class mesh {
  static_assert(all_different<Axes...>, "mesh: an axis is named twice; name each axis once");
  static_assert(detail::no_axis_and_its_part<Axes...>,
                "mesh: an axis stands beside one of its own parts; name the flat axis alone, or "
                "its two parts");
  static_assert(detail::in_order<Axes...>(),
                "mesh: the axes are out of order; name them from slow to fast links: pipeline, "
                "data, expert, context, tensor");

 public:
  using axes = type_list<Axes...>;
  static constexpr std::size_t dimensions = sizeof...(Axes);

  constexpr mesh() noexcept { extents_.fill(1); }

  /// A mesh of the extents given, seen from `rank`. Throws bad_request when an extent is not
  /// positive, their product is too large for an int, or the rank is not in the mesh.
  constexpr explicit mesh(std::array<int, dimensions> extents, int rank = 0)
      : extents_(extents), rank_(rank) {
    for (int extent : extents_) {
      if (extent < 1) require(false, "mesh: an extent is ", extent, "; every extent is at least 1");
    }
    std::int64_t ranks = 1;
    for (int extent : extents_) {
      ranks *= extent;
      if (ranks > std::numeric_limits<int>::max()) {
        require(false, "mesh: the product of the extents is more than ",
                std::numeric_limits<int>::max(), " ranks; use smaller extents");
      }
    }
    if (rank < 0 || rank >= ranks) {
      require(false, "mesh: rank ", rank, " is not among the ", ranks, " ranks of the mesh");
    }
  }

  /// The same from a list in braces, `mesh<axis::data, axis::tensor>({2, 4})`. It has an overload
  /// of its own because nvcc rewrites the call, and the host compiler does not take the array's.
  constexpr explicit mesh(const int (&extents)[dimensions == 0 ? 1 : dimensions], int rank = 0)
      : mesh(as_array(extents), rank) {}

  /// The same mesh, seen from another rank.
  constexpr mesh seen_from(int rank) const { return mesh(extents_, rank); }

  constexpr int size() const noexcept {
    int product = 1;
    for (int extent : extents_) product *= extent;
    return product;
  }
  constexpr int rank() const noexcept { return rank_; }

  /// True when the mesh has the axis, by itself or by its two parts.
  template <mesh_axis A>
  static constexpr bool has = (is_part_of<Axes, A> || ...);

  /// The number of ranks along an axis.
  template <mesh_axis A>
  constexpr int extent() const noexcept {
    static_assert(has<A>, "mesh: this axis is not in the mesh; use an axis that the mesh names");
    constexpr bool part[] = {is_part_of<Axes, A>..., false};
    int product = 1;
    for (std::size_t i = 0; i < dimensions; ++i) product *= part[i] ? extents_[i] : 1;
    return product;
  }

  /// This rank's place along an axis, from 0.
  template <mesh_axis A>
  constexpr int coordinate() const noexcept {
    static_assert(has<A>, "mesh: this axis is not in the mesh; use an axis that the mesh names");
    constexpr bool part[] = {is_part_of<Axes, A>..., false};
    const auto all = coordinates();
    int place = 0;
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (part[i]) place = place * extents_[i] + all[i];
    }
    return place;
  }

  constexpr const std::array<int, dimensions>& extents() const noexcept { return extents_; }

  constexpr std::array<int, dimensions> coordinates() const noexcept {
    std::array<int, dimensions> all{};
    int rest = rank_;
    for (std::size_t i = dimensions; i-- > 0;) {
      all[i] = rest % extents_[i];
      rest /= extents_[i];
    }
    return all;
  }

  /// Ranks with equal colour differ only along `A`: they are the group that communicates on it.
  template <mesh_axis A>
  constexpr int color() const noexcept {
    constexpr bool part[] = {is_part_of<Axes, A>..., false};
    const auto all = coordinates();
    int color = 0;
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (!part[i]) color = color * extents_[i] + all[i];
    }
    return color;
  }

  /// "data 2 x tensor 4".
  std::string text() const {
    std::string line;
    std::size_t i = 0;
    ((line += joined(i == 0 ? "" : " x ", Axes::name, " ", extents_[i]), ++i), ...);
    return line;
  }

  friend constexpr bool operator==(const mesh& a, const mesh& b) noexcept = default;

 private:
  static constexpr std::array<int, dimensions> as_array(const int* extents) noexcept {
    std::array<int, dimensions> all{};
    for (std::size_t i = 0; i < dimensions; ++i) all[i] = extents[i];
    return all;
  }

  std::array<int, dimensions> extents_{};
  int rank_ = 0;
};

}  // namespace tenon::inline v0
