// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/parallel/flat_group.hpp"

namespace tenon::inline v0 {

/// The parameters of one rank's layers, and what happens to them in a step: weights are made
/// before a unit uses them and, with `shards::parameters`, freed after; gradients are summed over
/// ranks as their types ask for. A *unit* is what weights are gathered for at once: a layer of the
/// model. A parameter of several units (a tied table) lies in a group of its own.
///
///   need(u) -> forward -> release(u)        need(u) -> backward -> end_backward(u) -> release(u)
///
/// Collective: all members; the ranks call them in one order.
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class parameter_store {
 public:
  using unit_type = std::vector<any_parameter<Wide>*>;

  /// The parameters must outlive this; they have no values before `initialise`.
  parameter_store(const std::vector<unit_type>& units, tenon::ledger& book,
                  shard_settings settings = {})
      : settings_(std::make_unique<shard_settings>(settings)), book_(&book) {
    require(settings.bucket.elements >= 0, "parameter_store: buckets of ", settings.bucket.elements,
            " elements were asked for; use one or more, or 0 for one bucket a parameter");
    for (const unit_type& unit : units) add_unit(unit, units);
    for (auto& group : groups_) group.settle();
  }
  /// The same for parameters that are one unit.
  explicit parameter_store(unit_type parameters, tenon::ledger& book, shard_settings settings = {})
      : parameter_store(std::vector<unit_type>{std::move(parameters)}, book, settings) {}

  /// Every parameter once.
  const unit_type& parameters() const noexcept { return parameters_; }
  const shard_settings& settings() const noexcept { return *settings_; }
  /// Between steps.
  void set_overlap(bool overlap) noexcept { settings_->overlap = overlap; }

  /// Values that are the same in every layout, and the weights that stay between steps.
  void initialise(std::uint64_t seed) {
    for (any_parameter<Wide>* parameter : parameters_) parameter->initialise(seed);
    publish_cut();
  }
  /// After the owned values have changed: the weights that stay between steps.
  void publish() {
    for (auto& group : groups_) {
      if (group.is_cut()) continue;
      for (any_parameter<Wide>* p : group.members()) {
        if (!p->spread_axis().empty()) p->publish();
      }
    }
    publish_cut();
  }

  /// All gradients at zero; the step will run each unit backward so many times.
  void begin_step(std::int64_t backwards = 1) {
    for (auto& group : groups_) group.begin_step();
    backwards_left_.assign(groups_.size(), 0);
    for (const auto& members : unit_groups_) {
      for (const std::size_t g : members) backwards_left_[g] += backwards;
    }
  }

  /// Starts gathering the unit's weights, if they come and go.
  void fetch(std::size_t unit) {
    if (settings_->stage != shards::parameters || unit >= fetched_.size() || fetched_[unit]) return;
    fetched_[unit] = true;
    const phase_scope inside(*book_, "weights");
    for (const std::size_t g : unit_groups_[unit]) {
      if (!groups_[g].gathers_for_use()) continue;
      if (users_[g]++ == 0) {
        groups_[g].start_gather();
        on_the_way_[g] = true;
      }
    }
  }
  /// Returns when the unit's weights are there.
  void need(std::size_t unit) {
    fetch(unit);
    const phase_scope inside(*book_, "weights");
    for (const std::size_t g : unit_groups_[unit]) {
      if (!on_the_way_[g]) continue;
      groups_[g].finish_gather();
      on_the_way_[g] = false;
    }
  }
  /// The unit does not use its weights for now.
  void release(std::size_t unit) {
    if (!fetched_[unit]) return;
    fetched_[unit] = false;
    for (const std::size_t g : unit_groups_[unit]) {
      if (groups_[g].gathers_for_use() && --users_[g] == 0) groups_[g].drop_weights();
    }
  }
  /// Before the unit's backward: memory for its gradients.
  void begin_backward(std::size_t unit) {
    for (const std::size_t g : unit_groups_[unit]) groups_[g].begin_backward();
  }
  /// After it: the sums that are due are done, or, with overlap, under way.
  void end_backward(std::size_t unit) {
    const phase_scope inside(*book_, "gradients");
    for (const std::size_t g : unit_groups_[unit]) {
      groups_[g].end_backward(--backwards_left_[g] == 0);
      if (!settings_->overlap || !groups_[g].reduces_each_backward()) continue;
      scattering_.push_back(g);
    }
    while (scattering_.size() > 2 * unit_groups_[unit].size()) {
      groups_[scattering_.front()].finish_scatter();
      scattering_.pop_front();
    }
  }
  /// After the last backward of the step. The owned gradients are then whole, on every axis of the
  /// stage's mesh.
  void finish_step() {
    const phase_scope inside(*book_, "gradients");
    scattering_.clear();
    for (auto& group : groups_) group.finish_step();
  }
  /// The sums of a step of one backward of every unit, at once.
  void reduce() {
    for (std::size_t unit = 0; unit < unit_groups_.size(); ++unit) end_backward(unit);
    finish_step();
  }

  /// What a step sends besides the layers: `gathers[u]` gathers of unit u for its use, `backwards`
  /// backwards of every unit.
  template <class Mesh>
  void add_prices(prices_on<Mesh>& prices, const std::vector<std::int64_t>& gathers,
                  std::int64_t backwards) const {
    std::vector<std::int64_t> users(groups_.size(), 0);
    for (std::size_t unit = 0; unit < unit_groups_.size(); ++unit) {
      for (const std::size_t g : unit_groups_[unit]) {
        ++users[g];
        if (groups_[g].gathers_for_use()) {
          groups_[g].add_gather_prices(prices, gathers[unit], "weights");
        }
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].add_gradient_prices(prices, backwards * users[g], "gradients");
      if (!groups_[g].gathers_for_use()) groups_[g].add_gather_prices(prices, 1, "publish");
    }
  }

 private:
  void add_unit(const unit_type& unit, const std::vector<unit_type>& units) {
    std::vector<std::size_t> here;
    std::vector<std::size_t> fresh;
    for (any_parameter<Wide>* p : unit) {
      const auto known = std::find(parameters_.begin(), parameters_.end(), p);
      if (known != parameters_.end()) {
        const std::size_t g = group_of_[static_cast<std::size_t>(known - parameters_.begin())];
        if (std::find(here.begin(), here.end(), g) == here.end()) here.push_back(g);
        continue;
      }
      const auto uses = std::count_if(units.begin(), units.end(), [p](const unit_type& other) {
        return std::find(other.begin(), other.end(), p) != other.end();
      });
      const bool joins = uses == 1 && !p->is_tied();
      const auto lines = p->lines({settings_->stage != shards::none, settings_->data_extent});
      auto found = std::find_if(fresh.begin(), fresh.end(), [&](std::size_t g) {
        return joins && groups_[g].lines() == lines &&
               groups_[g].members().front()->use_element() == p->use_element();
      });
      std::size_t g = groups_.size();
      if (found == fresh.end()) {
        groups_.emplace_back(lines, *settings_);
        here.push_back(g);
        if (joins) fresh.push_back(g);
      } else {
        g = *found;
      }
      groups_[g].add(p);
      parameters_.push_back(p);
      group_of_.push_back(g);
    }
    unit_groups_.push_back(std::move(here));
    fetched_.push_back(false);
    users_.resize(groups_.size(), 0);
    on_the_way_.resize(groups_.size(), false);
    backwards_left_.resize(groups_.size(), 1);
  }
  void publish_cut() {
    for (auto& group : groups_) {
      if (!group.is_cut() || group.gathers_for_use()) continue;
      group.start_gather();
      group.finish_gather();
    }
  }

  std::unique_ptr<shard_settings> settings_;  // groups refer to them
  tenon::ledger* book_;
  unit_type parameters_;
  std::vector<std::size_t> group_of_;  // of each parameter
  std::deque<flat_group<Wide>> groups_;
  std::vector<std::vector<std::size_t>> unit_groups_;
  std::vector<bool> fetched_;  // of each unit
  std::vector<int> users_;     // of each group's weights
  std::vector<bool> on_the_way_;
  std::vector<std::int64_t> backwards_left_;
  std::deque<std::size_t> scattering_;
};

}  // namespace tenon::inline v0
