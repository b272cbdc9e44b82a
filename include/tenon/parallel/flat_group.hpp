// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/communicate/communicator.hpp"
#include "tenon/kernel/flat.hpp"
#include "tenon/layer/any_parameter.hpp"
#include "tenon/layer/prices.hpp"
#include "tenon/parallel/shards.hpp"

namespace tenon::inline v0 {

/// Parameters whose gradients are summed over the same ranks, one after another in one run of
/// elements. Where ranks divide it (`lines.shard`), each owns a balanced part of the run, without
/// padding, that may begin and end inside a parameter:
///
///   [ weight ............... | weight ..... | gain ]     7 ranks: parts of n / 7, the first ones
///   [ rank 0 | rank 1 | rank 2 | rank 3 | ...      ]     longer by one; a part may be empty
///
/// Collective: members that say so must be called by all ranks of the lines, in one order.
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class flat_group {
 public:
  using parameter_type = any_parameter<Wide>;

  /// The settings must outlive this; between steps `overlap` may change.
  flat_group(reduction_lines lines, const shard_settings& settings)
      : lines_(lines), settings_(&settings) {}

  const reduction_lines& lines() const noexcept { return lines_; }
  bool is_cut() const noexcept { return lines_.shard != nullptr; }
  bool gathers_for_use() const noexcept {
    return is_cut() && settings_->stage == shards::parameters;
  }
  bool reduces_each_backward() const noexcept {
    return is_cut() && settings_->stage >= shards::gradients;
  }
  const std::vector<parameter_type*>& members() const noexcept { return members_; }

  void add(parameter_type* parameter) {
    members_.push_back(parameter);
    ends_.push_back(elements_ += parameter->piece_elements());
  }

  /// Divides the run and gives gradients their memory; after the last `add`.
  void settle() {
    const int ranks = is_cut() ? lines_.shard->size() : 1;
    const auto cut = partition::balanced(elements_, ranks);
    for (int r = 0; r < ranks; ++r) counts_.push_back(cut.of(r).size);
    mine_ = cut.of(is_cut() ? lines_.shard->rank() : 0);
    if (is_cut()) {
      const bool first = lines_.rest == nullptr || lines_.rest->rank() == 0;
      for_each_member([&](parameter_type& p, std::int64_t begin) {
        const region shared = intersection(mine_, {begin, p.piece_elements()});
        p.keep_part(
            {std::clamp<std::int64_t>(shared.begin - begin, 0, p.piece_elements()), shared.size},
            first);
      });
    }
    if (reduces_each_backward()) {
      owned_gradient_ = std::make_shared<buffer<Wide>>(mine_.size);
      std::int64_t at = 0;
      for (parameter_type* p : members_) {
        p->place_owned_gradient(owned_gradient_, at);
        at += p->owned_elements();
      }
      return;
    }
    gradient_ = std::make_shared<buffer<Wide>>(elements_);
    for_each_member([&](parameter_type& p, std::int64_t begin) {
      p.place_gradient(gradient_, begin);
      if (is_cut()) p.place_owned_gradient(gradient_, begin + p.part().begin);
    });
  }

  /// Starts making the weights that products use, from what the ranks own. Collective.
  void start_gather() {
    if (!is_cut()) {
      for (parameter_type* p : members_) p->publish();
      return;
    }
    const element_kind kind = members_.front()->use_element();
    if (weights_ == nullptr) {
      weights_ = std::make_shared<buffer<std::byte>>(elements_ * bytes_of(kind));
    }
    void* all = weights_->data();
    for_each_member([&](parameter_type& p, std::int64_t begin) {
      p.place_weights(weights_, detail::at(all, begin, kind));
      if (all != nullptr) p.round_part(detail::at(all, begin + p.part().begin, kind));
    });
    gathering_ = lines_.shard->call({.call = collective::all_gather,
                                     .element = kind,
                                     .from = detail::at(all, mine_.begin, kind),
                                     .to = all,
                                     .to_counts = counts_},
                                    {.tensor = "weights", .start_only = true}, call_site::here());
  }
  /// Returns when the weights are there.
  void finish_gather() {
    if (!is_cut()) return;
    gathering_.wait();
    for (parameter_type* p : members_) p->make_use();
  }
  void drop_weights() {
    for (parameter_type* p : members_) p->place_weights(nullptr, nullptr);
    weights_ = nullptr;
  }

  /// All gradients at zero: before the first backward of a step.
  void begin_step() {
    if (reduces_each_backward()) {
      owned_gradient_->fill_with_zeros();
    } else {
      for (parameter_type* p : members_) p->begin_step();
    }
  }
  /// Before a backward: there is memory for what it adds up.
  void begin_backward() {
    finish_scatter();  // of a tied table's other use: it is still on the way
    ++open_backwards_;
    if (!reduces_each_backward() || gradient_ != nullptr) return;
    gradient_ = std::make_shared<buffer<Wide>>(elements_);
    for_each_member([&](parameter_type& p, std::int64_t begin) {
      p.place_gradient(gradient_, begin);
      p.begin_step();
    });
  }
  /// After a backward, of all of whose gradients this is the end; `last` after the last one of the
  /// step. Starts the sums over ranks that are due. Collective.
  void end_backward(bool last) {
    --open_backwards_;
    if (!reduces_each_backward() && !last) return;
    for (parameter_type* p : members_) p->gather_uses();
    for_each_bucket({0, elements_}, [&](region bucket, const std::string& name) {
      if (is_cut()) {
        scatter(bucket, name);
      } else if (lines_.rest != nullptr) {
        sum_over(*lines_.rest, gradient_->data(), bucket, name);
      }
    });
    if (!reduces_each_backward()) return;
    if (open_backwards_ > 0) {  // others have begun to add to the same memory
      finish_calls();
      add_scattered();
      for (parameter_type* p : members_) p->begin_step();
      return;
    }
    if (!settings_->overlap) finish_scatter();
  }
  /// Waits for the reduce-scatter of the last backward, and lets go of its memory.
  void finish_scatter() {
    if (!reduces_each_backward() || gradient_ == nullptr || open_backwards_ > 0) return;
    finish_calls();
    add_scattered();
    gradient_ = nullptr;
    for (parameter_type* p : members_) p->place_gradient(nullptr, 0);
  }
  /// After the last backward of the step: the owned gradients are then whole. Collective.
  void finish_step() {
    finish_scatter();
    finish_calls();
    if (!is_cut() || lines_.rest == nullptr) return;
    Wide* values =
        reduces_each_backward() ? owned_gradient_->data() : shifted(gradient_->data(), mine_.begin);
    for_each_bucket({0, mine_.size}, [&](region bucket, const std::string& name) {
      sum_over(*lines_.rest, values, bucket, name);
    });
    finish_calls();
  }

  /// What one gather, and the sums of a step with `backwards` backwards, send.
  template <class Mesh>
  void add_gather_prices(prices_on<Mesh>& prices, std::int64_t times,
                         std::string_view phase) const {
    for (std::int64_t i = 0; i < times; ++i) {
      if (is_cut() && elements_ > 0) {
        prices.add(lines_.shard->axis(), "all_gather", phase,
                   (elements_ - mine_.size) * bytes_of(members_.front()->use_element()));
      }
      for (const parameter_type* p : members_) {
        if (p->spread_axis().empty()) continue;
        prices.add(p->spread_axis(), "all_to_all", phase, p->spread_bytes_forward());
      }
    }
  }
  template <class Mesh>
  void add_gradient_prices(prices_on<Mesh>& prices, std::int64_t backwards,
                           std::string_view phase) const {
    constexpr auto width = static_cast<std::int64_t>(sizeof(Wide));
    const auto price_sum = [&](const communicator& line, region all) {
      for_each_bucket(all, [&](region bucket, const std::string&) {
        const auto own = partition::balanced(bucket.size, line.size()).of(line.rank()).size;
        prices.add(line.axis(), "all_reduce", phase, 2 * (bucket.size - own) * width);
      });
    };
    const std::int64_t times = reduces_each_backward() ? backwards : 1;
    for (std::int64_t i = 0; i < times; ++i) {
      for (const parameter_type* p : members_) {
        if (p->spread_axis().empty()) continue;
        prices.add(p->spread_axis(), "all_to_all", phase, p->spread_bytes_backward());
      }
      if (is_cut()) {
        for_each_bucket({0, elements_}, [&](region bucket, const std::string&) {
          prices.add(lines_.shard->axis(), "reduce_scatter", phase,
                     (bucket.size - intersection(bucket, mine_).size) * width);
        });
      }
    }
    if (lines_.rest != nullptr)
      price_sum(*lines_.rest, is_cut() ? region{0, mine_.size} : region{0, elements_});
  }

 private:
  template <class F>
  void for_each_member(F&& f) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      f(*members_[i], ends_[i] - members_[i]->piece_elements());
    }
  }
  template <class F>
  void for_each_bucket(region all, F&& f) const {
    if (settings_->bucket.elements == 0 && all.size == elements_) {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (ends_[i] > begin) f({begin, ends_[i] - begin}, members_[i]->declaration().name);
        begin = ends_[i];
      }
      return;
    }
    const std::int64_t most =
        settings_->bucket.elements == 0 ? all.size : settings_->bucket.elements;
    for (std::int64_t begin = all.begin; begin < all.end(); begin += most) {
      f({begin, std::min(most, all.end() - begin)}, std::string("gradients"));
    }
  }
  static Wide* shifted(Wide* values, std::int64_t by) noexcept {
    return values == nullptr ? nullptr : values + by;
  }

  void sum_over(communicator& line, Wide* values, region bucket, const std::string& name) {
    Wide* from = shifted(values, bucket.begin);
    keep(line.call({.call = collective::all_reduce,
                    .element = kind_of<Wide>,
                    .from = from,
                    .to = from,
                    .count = bucket.size},
                   {.tensor = name, .start_only = settings_->overlap}, call_site::here()));
  }
  // Each rank gets the sum of what it owns of the bucket, in its place.
  void scatter(region bucket, const std::string& name) {
    std::vector<std::int64_t> counts;
    std::int64_t begin = 0;
    for (const std::int64_t count : counts_) {
      counts.push_back(intersection(bucket, {begin, count}).size);
      begin += count;
    }
    const region own = intersection(bucket, mine_);
    Wide* values = gradient_->data();
    keep(lines_.shard->call({.call = collective::reduce_scatter,
                             .element = kind_of<Wide>,
                             .from = shifted(values, bucket.begin),
                             .to = shifted(values, own.size == 0 ? bucket.begin : own.begin),
                             .from_counts = counts},
                            {.tensor = name, .start_only = settings_->overlap}, call_site::here()));
  }
  void keep(pending call) {
    if (settings_->overlap) calls_.push_back(std::move(call));
  }
  void finish_calls() {
    for (pending& call : calls_) call.wait();
    calls_.clear();
  }
  void add_scattered() {
    if (shapes_only::active()) return;
    const std::span<const Wide> all = gradient_->span();
    kernel::add_scaled(
        owned_gradient_->span(), 1,
        all.subspan(static_cast<std::size_t>(mine_.begin), static_cast<std::size_t>(mine_.size)));
  }

  reduction_lines lines_;
  const shard_settings* settings_;
  std::vector<parameter_type*> members_;
  std::vector<std::int64_t> ends_;  // of each member, in the run
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> counts_;  // of each rank of the shard line
  region mine_{};
  std::shared_ptr<buffer<std::byte>> weights_;
  pending gathering_;
  std::shared_ptr<buffer<Wide>> gradient_;  // of the run
  std::shared_ptr<buffer<Wide>> owned_gradient_;
  std::vector<pending> calls_;
  int open_backwards_ = 0;
};

}  // namespace tenon::inline v0
