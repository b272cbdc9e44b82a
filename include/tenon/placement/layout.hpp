// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tenon/mesh/mesh.hpp"
#include "tenon/placement/move.hpp"
#include "tenon/placement/partition.hpp"
#include "tenon/placement/placement.hpp"

namespace tenon::inline v0 {

namespace detail {

// One partition for each axis. Not an array, and made by a call: g++ 12 copies and destroys arrays
// of values that hold memory wrongly in constant expressions, nvcc 13 fails on their default.
template <std::size_t N>
struct partitions {
  partition first = partition::balanced(0, 1);
  partitions<N - 1> rest{};
  constexpr partition& operator[](std::size_t i) noexcept { return i == 0 ? first : rest[i - 1]; }
  constexpr const partition& operator[](std::size_t i) const noexcept {
    return i == 0 ? first : rest[i - 1];
  }
  friend constexpr bool operator==(const partitions&, const partitions&) = default;
};
template <>
struct partitions<1> {
  partition only = partition::balanced(0, 1);
  constexpr partition& operator[](std::size_t) noexcept { return only; }
  constexpr const partition& operator[](std::size_t) const noexcept { return only; }
  friend constexpr bool operator==(const partitions&, const partitions&) = default;
};

}  // namespace detail

/// Where one rank's piece of a tensor lies: the global shape, the mesh seen from the rank, and, on
/// each axis that cuts a dim, the partition. No memory and no communication.
///
/// Two axes may cut one dim: the axis named first cuts it, the second cuts each piece again.
/// Thread-safety: a value; const members may be called at once.
template <class Dims, class Placement>
class layout {
  using states = states_of_t<Placement>;
  static_assert(is_placement<states>,
                "layout: the second argument is a placement<on<axis, state>...>");
  static_assert(cuts_only<Placement, Dims>,
                "layout: an axis cuts a dim that the tensor does not have; cut one of its dims");

 public:
  using mesh_type = typename Placement::mesh_type;
  static constexpr std::size_t rank_axes = mesh_type::dimensions;

  constexpr layout() = default;
  constexpr layout(tenon::shape<Dims> global, mesh_type grid) : global_(global), grid_(grid) {
    find_regions();
  }

  /// The same layout with another partition of the dim that `Axis` cuts. The partition must divide
  /// what the outer axes leave of that dim, into one region a rank.
  template <mesh_axis Axis>
  constexpr layout with(partition other) const {
    static_assert(
        is_sharded<state_on_t<Placement, Axis>>,
        "layout: this axis cuts no dim of the tensor; give a partition where it is sharded");
    const partition& now = partition_on<Axis>();
    require(other.parts() == now.parts() && other.extent() == now.extent(),
            "layout: a partition of ", other.extent(), " into ", other.parts(), " was given where ",
            now.extent(), " indices lie on ", now.parts(), " ranks of ", Axis::name);
    layout changed = *this;
    changed.custom_[axis_index<Axis>()] = std::move(other);
    changed.is_custom_[axis_index<Axis>()] = !changed.partition_on<Axis>().is_balanced();
    changed.find_regions();
    return changed;
  }

  constexpr const tenon::shape<Dims>& global() const noexcept { return global_; }
  constexpr const mesh_type& grid() const noexcept { return grid_; }

  /// What this rank holds of a dim, in global indices.
  template <class D>
  constexpr region of() const noexcept {
    static_assert(Dims::template has<D>,
                  "layout: the tensor has no such dim; use a dim that its type names");
    return regions_[Dims::template position<D>];
  }
  template <class D>
  constexpr std::int64_t extent() const noexcept {
    return of<D>().size;
  }
  constexpr const std::array<region, Dims::size>& regions() const noexcept { return regions_; }

  /// The number of elements that this rank holds.
  constexpr std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (const region& r : regions_) product *= r.size;
    return product;
  }

  /// How the dim that `Axis` cuts is divided over its ranks, in indices of what the outer axes
  /// leave of the dim.
  template <mesh_axis Axis>
  constexpr const partition& partition_on() const noexcept {
    return custom_[axis_index<Axis>()];
  }
  template <mesh_axis Axis>
  constexpr bool is_custom() const noexcept {
    return is_custom_[axis_index<Axis>()];
  }

  /// The layout after the state on `Axis` has become `To`; a new cut is balanced.
  template <mesh_axis Axis, state To>
  constexpr auto moved() const {
    using changed_placement = with_state<Placement, Axis, To>;
    layout<Dims, changed_placement> after(global_, grid_);
    keep_partitions<Axis>(after, grid_);
    return after;
  }

  /// The same layout as another rank of the mesh sees it.
  constexpr layout seen_from(int rank) const {
    layout other = *this;
    other.grid_ = grid_.seen_from(rank);
    other.find_regions();
    return other;
  }

  friend constexpr bool operator==(const layout&, const layout&) = default;

 private:
  template <class D, class P>
  friend class layout;

  template <mesh_axis Axis>
  static constexpr std::size_t axis_index() noexcept {
    return []<class... As>(std::type_identity<mesh<As...>>) {
      return index_of<Axis, As...>();
    }(std::type_identity<mesh_type>{});
  }

  // Partitions that are not balanced stay with the axes that the move does not touch.
  template <mesh_axis Moved, class Other>
  constexpr void keep_partitions(Other& after, const mesh_type&) const {
    bool any = false;
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      constexpr std::size_t i = axis_index<A>();
      if constexpr (!std::is_same_v<A, Moved> && is_sharded<state_on_t<Placement, A>>) {
        if (is_custom_[i]) {
          after.custom_[i] = custom_[i];
          after.is_custom_[i] = true;
          any = true;
        }
      }
    });
    if (any) after.find_regions();
  }

  constexpr void find_regions() {
    for (std::size_t d = 0; d < Dims::size; ++d) regions_[d] = {0, global_.extents[d]};
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      using held = state_on_t<Placement, A>;
      if constexpr (is_sharded<held>) {
        constexpr std::size_t i = axis_index<A>();
        region& now = regions_[Dims::template position<typename held::dim>];
        if (!is_custom_[i]) {
          custom_[i] = partition::balanced(now.size, grid_.template extent<A>());
        } else if (custom_[i].extent() != now.size) {
          require(false, "layout: the partition on ", A::name, " divides ", custom_[i].extent(),
                  " indices where the outer axes leave ", now.size,
                  "; give the partitions from the outer axis to the inner, for this rank");
        }
        const region piece = custom_[i].of(grid_.template coordinate<A>());
        now = {now.begin + piece.begin, piece.size};
      }
    });
  }

  tenon::shape<Dims> global_{};
  mesh_type grid_{};
  std::array<region, Dims::size> regions_{};
  detail::partitions<std::max<std::size_t>(rank_axes, 1)> custom_{};
  std::array<bool, rank_axes> is_custom_{};
};

}  // namespace tenon::inline v0
