// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tenon/communicate/communicator.hpp"
#include "tenon/communicate/one_rank.hpp"
#include "tenon/mesh/mesh.hpp"

namespace tenon::inline v0 {

namespace detail {

/// Which axes of the mesh a group runs along: bit i for the i-th axis that the mesh names.
using axis_mask = std::uint32_t;

template <class... Axes>
struct groups_of_mesh {
  template <class A>
  static constexpr axis_mask along() {
    axis_mask mask = 0;
    int i = 0;
    ((mask |= (is_part_of<Axes, A> ? axis_mask{1} : axis_mask{0}) << i, ++i), ...);
    return mask;
  }
  template <class... As>
  static constexpr axis_mask along_all() {
    return (axis_mask{0} | ... | along<As>());
  }
  template <class... As>
  static constexpr axis_mask along_list(type_list<As...>) {
    return along_all<As...>();
  }
};

template <class... As>
std::string name_of_axes(type_list<As...>) {
  std::string text;
  ((text += joined(text.empty() ? "" : " x ", As::name)), ...);
  return text;
}

}  // namespace detail

/// The ranks of a run on a mesh: a communicator for each axis that the mesh names, for each flat
/// axis of which it names both parts (`axis::data`, `axis::context`, `axis::tensor`), for each list
/// of axes in `Groups`, and for everyone. All share the rank's ledger.
///
///   ranks<mesh<axis::data, axis::tensor>> all(mpi.world(), {{2, 2}});
///   communicate::all_reduce(all.on<axis::tensor>(), values);
///
/// Thread-safety: none; it belongs to one rank's thread.
template <class Mesh, class... Groups>
class ranks;

template <class... Axes, class... Groups>
class ranks<mesh<Axes...>, Groups...> {
 public:
  using mesh_type = mesh<Axes...>;

  /// Collective: lays the ranks of `world` out on the grid. Throws bad_request, on every rank, when
  /// the grid is not of as many ranks.
  ranks(std::unique_ptr<transport> world, mesh_type grid, communicator_options options = {})
      : ranks(std::move(world), grid, options, false) {}

  /// Collective: the same over a group that stays the caller's.
  ranks(transport& world, mesh_type grid, communicator_options options = {})
      : ranks(world.split(0, world.rank()), grid, options) {}

  /// One rank of a grid, the one that `grid` is seen from, while no other rank is there. Calls are
  /// only allowed while `shapes_only` lives: what a run would hold is predicted so.
  static ranks absent(mesh_type grid, communicator_options options = {}) {
    return ranks(std::make_unique<absent_ranks>(grid.rank(), grid.size()), grid, options, true);
  }

  /// The communicator along an axis, flat or not, or along several axes.
  template <mesh_axis... As>
  communicator& on() {
    constexpr std::size_t place = place_of<As...>();
    static_assert(
        place < masks.size(),
        "ranks: there is no group along these axes; use axes that the mesh names, or list "
        "the group: ranks<mesh<...>, type_list<axis, axis>>");
    return *groups_[place];
  }
  communicator& everyone() { return *everyone_; }

  const mesh_type& grid() const noexcept { return grid_; }
  int rank() const noexcept { return grid_.rank(); }
  int size() const noexcept { return grid_.size(); }

  tenon::ledger& ledger() noexcept { return *book_; }
  void set_step(std::int64_t step) noexcept { book_->set_step(step); }
  void set_sums(sum_order sums) noexcept {
    for (auto& group : groups_) group->set_sums(sums);
    everyone_->set_sums(sums);
  }

  /// f(communicator&) for every communicator, in one order on all ranks.
  template <class F>
  void for_each_group(F f) {
    for (auto& group : groups_) f(*group);
    f(*everyone_);
  }

  /// Collective: throws disagreement, on the ranks concerned, when the calls made so far on any
  /// communicator differ between its ranks.
  void compare_plans() {
    for_each_group([](communicator& group) { group.compare(); });
  }

 private:
  using axes_of = detail::groups_of_mesh<Axes...>;

  static constexpr std::size_t leaf_count = sizeof...(Axes);
  static constexpr bool both_parts(detail::axis_mask mask) { return (mask & (mask - 1)) != 0; }
  static constexpr std::size_t flat_count =
      std::size_t{both_parts(axes_of::template along<axis::data>())} +
      std::size_t{both_parts(axes_of::template along<axis::context>())} +
      std::size_t{both_parts(axes_of::template along<axis::tensor>())};

  /// The axes of each group: first one an axis, then the flat ones, then those asked for.
  static constexpr auto masks = [] {
    std::array<detail::axis_mask, leaf_count + flat_count + sizeof...(Groups)> all{};
    std::size_t i = 0;
    for (; i < leaf_count; ++i) all[i] = detail::axis_mask{1} << i;
    for (const auto mask :
         {axes_of::template along<axis::data>(), axes_of::template along<axis::context>(),
          axes_of::template along<axis::tensor>()}) {
      if (both_parts(mask)) all[i++] = mask;
    }
    ((all[i++] = axes_of::along_list(Groups{})), ...);
    return all;
  }();

  template <class... As>
  static constexpr std::size_t place_of() {
    const detail::axis_mask wanted = axes_of::template along_all<As...>();
    const bool known = (mesh_type::template has<As> && ...) && wanted != 0;
    std::size_t place = 0;
    while (place < masks.size() && (!known || masks[place] != wanted)) ++place;
    return place;
  }

  static std::array<std::string, leaf_count + flat_count + sizeof...(Groups)> names() {
    std::array<std::string, leaf_count + flat_count + sizeof...(Groups)> all{
        std::string(Axes::name)...};
    std::size_t i = leaf_count;
    if (both_parts(axes_of::template along<axis::data>())) all[i++] = axis::data::name;
    if (both_parts(axes_of::template along<axis::context>())) all[i++] = axis::context::name;
    if (both_parts(axes_of::template along<axis::tensor>())) all[i++] = axis::tensor::name;
    ((all[i++] = detail::name_of_axes(Groups{})), ...);
    return all;
  }

  ranks(std::unique_ptr<transport> world, mesh_type grid, communicator_options options, bool absent)
      : grid_(checked(grid, *world)), book_(std::make_unique<tenon::ledger>()) {
    world->set_timeout(options.timeout);
    const auto coordinates = grid_.coordinates();
    const auto& extents = grid_.extents();
    const auto texts = names();
    for (std::size_t i = 0; i < masks.size(); ++i) {
      int place = 0, size = 1, color = 0;
      for (std::size_t k = 0; k < leaf_count; ++k) {
        int& number = (masks[i] >> k & 1U) != 0 ? place : color;
        number = number * extents[k] + coordinates[k];
        if ((masks[i] >> k & 1U) != 0) size *= extents[k];
      }
      std::unique_ptr<transport> group;
      if (size == 1) {
        group = std::make_unique<one_rank>();
      } else if (absent) {
        group = std::make_unique<absent_ranks>(place, size);
      } else {
        group = world->split(color, place);
      }
      groups_[i] = std::make_unique<communicator>(std::move(group), texts[i], *book_, options);
    }
    everyone_ = std::make_unique<communicator>(std::move(world), "all", *book_, options);
  }

  static mesh_type checked(const mesh_type& grid, const transport& world) {
    require(grid.size() == world.size(), "the mesh ", grid.text(), " needs ", grid.size(),
            grid.size() == 1 ? " rank" : " ranks", ", and this run has ", world.size(),
            "; give extents whose product is ", world.size(), ", or start ", grid.size(),
            " ranks: mpirun -n ", grid.size());
    return grid.seen_from(world.rank());
  }

  mesh_type grid_;
  std::unique_ptr<tenon::ledger> book_;
  std::array<std::unique_ptr<communicator>, masks.size()> groups_;
  std::unique_ptr<communicator> everyone_;
};

}  // namespace tenon::inline v0
