// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/communicate/communicator.hpp"
#include "tenon/communicate/one_rank.hpp"
#include "tenon/mesh/mesh.hpp"

namespace tenon::inline v0 {

/// Which axes of a mesh a group runs along: bit i for the i-th axis that the mesh names.
using axis_mask = std::uint32_t;

/// A rank's place on one axis, and whether a group runs along it.
struct axis_place {
  std::string_view name;
  int coordinate = 0;
  int extent = 1;
  bool inside = false;
};

namespace detail {

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
/// With a pipeline the mesh is that of one stage: the stages follow each other in the numbers of
/// the ranks, each on a mesh of its own, and `pipeline()` is the line through them.
///
///   stage 0   ranks 0 .. 3     mesh 2 x 2
///   stage 1   ranks 4 .. 7     mesh 2 x 2        pipeline() of rank 5: 1, 5
///
/// Thread-safety: none; it belongs to one rank's thread.
template <class Mesh, class... Groups>
class ranks;

template <class... Axes, class... Groups>
class ranks<mesh<Axes...>, Groups...> {
 public:
  using mesh_type = mesh<Axes...>;

  /// Collective: lays the ranks of `world` out on the grid, or on `stages` such grids. Throws
  /// bad_request, on every rank, when these are not of as many ranks.
  ranks(std::unique_ptr<transport> world, mesh_type grid, communicator_options options = {},
        int stages = 1)
      : ranks(std::move(world), grid, options, stages, false) {}

  /// Collective: the same over a group that stays the caller's.
  ranks(transport& world, mesh_type grid, communicator_options options = {}, int stages = 1)
      : ranks(world.split(0, world.rank()), grid, options, stages) {}

  /// One rank of a grid, the one that `grid` is seen from, in one of `stages` stages, while no
  /// other rank is there. Calls are only allowed while `shapes_only` lives: what a run would hold
  /// is predicted so.
  static ranks absent(mesh_type grid, communicator_options options = {}, int stages = 1,
                      int stage = 0) {
    return ranks(
        std::make_unique<absent_ranks>(stage * grid.size() + grid.rank(), stages * grid.size()),
        grid, options, stages, true);
  }

  /// Collective over the stage: the same ranks of this stage on another grid, with the same ledger.
  /// `other` must outlive it.
  static ranks beside(ranks& other, mesh_type grid) {
    auto& all = other.own_stage_ != nullptr ? *other.own_stage_ : other.everyone_->group();
    std::unique_ptr<transport> stage;
    if (other.absent_) {
      stage = std::make_unique<absent_ranks>(all.rank(), all.size());
    } else {
      stage = all.split(0, all.rank());
    }
    return ranks(std::move(stage), grid, other.everyone_->options(), 1, other.absent_, other.book_);
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
  /// All ranks, of all stages.
  communicator& everyone() { return *everyone_; }
  /// The ranks at this rank's place in every stage, in the order of the stages.
  communicator& pipeline() { return *pipeline_; }

  /// The axes as a mask for `along`.
  template <mesh_axis... As>
  static constexpr axis_mask mask_of() {
    return axes_of::template along_all<As...>();
  }
  static constexpr axis_mask all_axes = (axis_mask{1} << sizeof...(Axes)) - 1;

  /// Collective over the stage on its first call: the communicator along all axes of the mask. Axes
  /// of one rank are left out of it and of its name, so that it is the one of a single axis where
  /// no other is longer.
  communicator& along(axis_mask mask) { return along(places(mask)); }

  /// This rank's place on each axis, and whether a group runs along it.
  std::vector<axis_place> places(axis_mask inside) const {
    const auto coordinates = grid_.coordinates();
    constexpr std::array<std::string_view, leaf_count + 1> texts{Axes::name..., ""};
    std::vector<axis_place> all;
    for (std::size_t k = 0; k < leaf_count; ++k) {
      all.push_back({texts[k], coordinates[k], grid_.extents()[k], (inside >> k & 1U) != 0});
    }
    return all;
  }
  /// The same for places of which some were divided further: a group along a part of an axis.
  communicator& along(const std::vector<axis_place>& places) {
    int place = 0, size = 1, color = 0;
    std::string name;
    for (const axis_place& at : places) {
      int& number = at.inside ? place : color;
      number = number * at.extent + at.coordinate;
      if (!at.inside || at.extent == 1) continue;
      size *= at.extent;
      name += joined(name.empty() ? "" : " x ", at.name);
    }
    for (const auto& group : groups_) {
      if (group->axis() == name) return *group;
    }
    return further_group(name.empty() ? "none" : name, color, place, size);
  }

  /// Collective over the stage on its first call with a name: a further group of ranks of the
  /// stage. Those that give an equal colour form it, ordered by `place`, `size` of them; it is made
  /// once for each name.
  communicator& further_group(const std::string& name, int color, int place, int size) {
    auto& group = further_[name];
    if (group == nullptr) {
      group = std::make_unique<communicator>(made(color, place, size), name, *book_,
                                             everyone_->options());
    }
    return *group;
  }

  const mesh_type& grid() const noexcept { return grid_; }
  /// This rank among all, and their number.
  int rank() const noexcept { return everyone_->rank(); }
  int size() const noexcept { return everyone_->size(); }
  int stage() const noexcept { return pipeline_->rank(); }
  int stages() const noexcept { return pipeline_->size(); }

  tenon::ledger& ledger() noexcept { return *book_; }
  void set_step(std::int64_t step) noexcept { book_->set_step(step); }
  void set_sums(sum_order sums) noexcept {
    for_each_group([&](communicator& group) { group.set_sums(sums); });
  }

  /// f(communicator&) for every communicator, in one order on all ranks.
  template <class F>
  void for_each_group(F f) {
    for (auto& group : groups_) f(*group);
    for (auto& [name, group] : further_) f(*group);
    f(*pipeline_);
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
  static constexpr bool both_parts(axis_mask mask) { return (mask & (mask - 1)) != 0; }
  static constexpr std::size_t flat_count =
      std::size_t{both_parts(axes_of::template along<axis::data>())} +
      std::size_t{both_parts(axes_of::template along<axis::context>())} +
      std::size_t{both_parts(axes_of::template along<axis::tensor>())};

  /// The axes of each group: first one an axis, then the flat ones, then those asked for.
  static constexpr auto masks = [] {
    std::array<axis_mask, leaf_count + flat_count + sizeof...(Groups)> all{};
    std::size_t i = 0;
    for (; i < leaf_count; ++i) all[i] = axis_mask{1} << i;
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
    const axis_mask wanted = axes_of::template along_all<As...>();
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

  ranks(std::unique_ptr<transport> world, mesh_type grid, communicator_options options, int stages,
        bool absent, std::shared_ptr<tenon::ledger> book = std::make_shared<tenon::ledger>())
      : grid_(checked(grid, *world, stages)), book_(std::move(book)), absent_(absent) {
    world->set_timeout(options.timeout);
    const int stage = world->rank() / grid_.size();
    transport& all = *world;
    everyone_ = std::make_unique<communicator>(std::move(world), "all", *book_, options);
    pipeline_ = std::make_unique<communicator>(made_of(all, grid_.rank(), stage, stages),
                                               "pipeline", *book_, options);
    if (stages > 1) own_stage_ = made_of(all, stage, grid_.rank(), grid_.size());
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
      groups_[i] =
          std::make_unique<communicator>(made(color, place, size), texts[i], *book_, options);
    }
  }

  // A group of ranks of this stage.
  std::unique_ptr<transport> made(int color, int place, int size) {
    return made_of(own_stage_ != nullptr ? *own_stage_ : everyone_->group(), color, place, size);
  }
  std::unique_ptr<transport> made_of(transport& all, int color, int place, int size) const {
    if (size == 1) return std::make_unique<one_rank>();
    if (absent_) return std::make_unique<absent_ranks>(place, size);
    return all.split(color, place);
  }

  static mesh_type checked(const mesh_type& grid, const transport& world, int stages) {
    const int needed = grid.size() * stages;
    require(stages >= 1 && needed == world.size(), "the mesh ", grid.text(),
            stages == 1 ? std::string() : joined(" in ", stages, " stages"), " needs ", needed,
            needed == 1 ? " rank" : " ranks", ", and this run has ", world.size(),
            "; give extents whose product is ", world.size(), ", or start ", needed,
            " ranks: mpirun -n ", needed);
    return grid.seen_from(world.rank() % grid.size());
  }

  mesh_type grid_;
  std::shared_ptr<tenon::ledger> book_;
  bool absent_ = false;
  std::unique_ptr<communicator> everyone_;
  std::unique_ptr<transport> own_stage_;  // none when there is one stage
  std::unique_ptr<communicator> pipeline_;
  std::array<std::unique_ptr<communicator>, masks.size()> groups_;
  std::map<std::string, std::unique_ptr<communicator>> further_;
};

}  // namespace tenon::inline v0
