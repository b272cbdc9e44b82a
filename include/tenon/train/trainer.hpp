// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/communicate/broadcast.hpp"
#include "tenon/model/decoder_model.hpp"
#include "tenon/parallel/data.hpp"
#include "tenon/train/batches.hpp"
#include "tenon/train/clip.hpp"
#include "tenon/train/learning_rate.hpp"
#include "tenon/train/optimizer.hpp"

namespace tenon::inline v0 {

/// What a training run is asked to do, besides its model and its layout.
struct trainer_settings {
  std::int64_t batch = 16;       ///< sequences in a global step
  std::int64_t microbatch = 16;  ///< sequences in one forward of one rank
  learning_rate_schedule rate{};
  adamw_settings optimizer{};
  double clip = 1;        ///< largest norm of the gradient
  double balance = 0.01;  ///< weight of the experts' balancing loss
  std::uint64_t seed = 1;
  bucket_size bucket{};
};

/// What one step came to; the same on every rank, but for the seconds.
struct step_result {
  std::int64_t step = 0;
  double loss = 0;  ///< mean over the counted tokens of the whole step, in nats
  /// Mean of the balancing loss over the step's sequences and the blocks with experts: 1 when all
  /// experts are chosen alike. It is not in `loss`.
  double balance_loss = 0;
  double gradient_norm = 0;  ///< before clipping
  std::int64_t tokens = 0;   ///< counted, over all ranks
  double seconds = 0;
  double collective_seconds = 0;
  double forward_backward_seconds = 0;
  double gradient_seconds = 0;   ///< the gradients' reduction
  double optimizer_seconds = 0;  ///< norm, clipping, AdamW, publishing
};

/// Fills the tokens and targets of some places of the step's batch; see `batches::fill`. A target
/// below 0 is not counted.
using token_source =
    std::function<void(std::int64_t step, region places, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets)>;

/// Trains a decoder: steps of forward, backward, reduction of gradients, clipping, AdamW. The loss
/// is the mean over the counted tokens of the whole step, however they are cut over ranks and
/// microbatches.
///
/// Collective: every member function that says so must be called by all ranks of the mesh.
/// Thread-safety: none; it belongs to one rank's thread.
template <element E, class StreamState>
class trainer {
 public:
  using model_type = decoder_model<E, StreamState>;
  using mesh_type = typename model_type::mesh_type;
  using master = wide<E>;

  /// Collective. Errors: bad_request for a model or a batch that cannot be.
  trainer(ranks<mesh_type>& group, const decoder_shape& shape, trainer_settings settings)
      : group_(&group),
        settings_(settings),
        division_(settings.batch, settings.microbatch, group.grid().template extent<axis::data>(),
                  group.grid().template extent<axis::expert>()),
        model_(group, shape, settings.seed),
        gradients_(model_.parameters(), settings.bucket),
        optimizer_(model_.parameters(), settings.optimizer) {
    sharers();
    group.compare_plans();
  }

  model_type& model() noexcept { return model_; }
  const batch_division& division() const noexcept { return division_; }
  adamw<master>& optimizer() noexcept { return optimizer_; }
  std::int64_t steps_done() const noexcept { return step_; }

  /// Collective: one step on the next batch.
  step_result step(const token_source& source) {
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [](std::chrono::steady_clock::time_point then) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
    };
    auto& book = group_->ledger();
    group_->set_step(step_);
    book.mark();
    step_result result = accumulate(source);
    result.forward_backward_seconds = since(begin);
    {
      const phase_scope inside(book, "gradients");
      gradients_.reduce();
    }
    result.gradient_seconds = since(begin) - result.forward_backward_seconds;
    const auto reduced = std::chrono::steady_clock::now();
    {
      const phase_scope inside(book, "norm");
      result.gradient_norm = gradient_norm(model_.parameters(), *group_);
    }
    optimizer_.step(settings_.rate.at(step_), clip_scale(result.gradient_norm, settings_.clip),
                    step_ + 1);
    {
      const phase_scope inside(book, "publish");
      for (any_parameter<master>* p : model_.parameters()) {
        if (!p->spread_axis().empty()) p->publish();
      }
    }
    result.optimizer_seconds = since(reduced);
    group_->compare_plans();
    result.step = step_++;
    result.seconds = since(begin);
    result.collective_seconds = book.seconds_since_mark();
    return result;
  }

  /// Collective: forward and backward of the next batch and no more: the gradients are left as the
  /// microbatches have summed them. For tests and for `step`.
  step_result accumulate(const token_source& source) {
    step_result result;
    gradients_.begin_step();
    std::vector<tokens_of_microbatch> all;
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < division_.microbatches(); ++i) {
      all.push_back(fill(source, i));
      for (const std::int32_t target : all.back().targets.values()) counted += target >= 0 ? 1 : 0;
    }
    result.tokens = count_over_all(counted);
    // A step in which nothing counts has loss 0 and gradient 0.
    const double scale = result.tokens == 0 ? 0 : 1.0 / static_cast<double>(result.tokens);
    double loss = 0;
    // Every sequence of the step counts alike, whatever microbatch and rank it is on.
    const auto balanced =
        static_cast<double>(settings_.batch * std::max<std::int64_t>(expert_blocks(), 1));
    model_.state().balance_scale = result.tokens == 0 ? 0 : settings_.balance / balanced;
    model_.state().balance_sum = 0;
    model_.state().training = true;
    model_.state().step = step_;
    for (auto& microbatch : all) {
      model_.state().batch_begin = microbatch.begin;
      const auto total = model_.forward_backward(std::move(microbatch.tokens),
                                                 std::move(microbatch.targets), scale);
      if (!total.values().empty()) loss += total.values()[0];
    }
    result.loss = loss_over_all(loss) * scale;
    if (expert_blocks() > 0) {
      result.balance_loss = loss_over_all(model_.state().balance_sum) / balanced;
    }
    return result;
  }

  /// Collective: reduces the gradients that `accumulate` has left, without stepping.
  void reduce_gradients() { gradients_.reduce(); }

  /// What a step sends for this rank, from types and shapes alone.
  prices_on<mesh_type> predicted_traffic() const {
    prices_on<mesh_type> prices(group_->grid());
    for (std::int64_t i = 0; i < division_.microbatches(); ++i) {
      model_.add_prices(prices, sequences_in(i));
    }
    gradients_.add_prices(prices, "gradients");
    add_prices_of_sum(prices, "norm");
    for (const any_parameter<master>* p : model_.parameters()) {
      if (p->spread_axis().empty()) continue;
      prices.add(p->spread_axis(), "all_to_all", "publish", p->spread_bytes_forward());
    }
    communicator& line = sharers();
    if (line.size() > 1) {
      const auto bytes = 2 * (1 - partition::balanced(1, line.size()).of(line.rank()).size) * 8;
      prices.add(line.axis(), "all_reduce", "loss", bytes);
      if (expert_blocks() > 0) prices.add(line.axis(), "all_reduce", "loss", bytes);
      prices.add(line.axis(), "all_reduce", "count", bytes);
    }
    return prices;
  }

  /// Collective: continues `tokens` by one token, chosen by `choose` from the logits (on data rank
  /// 0, alike on its ranks of the tensor axis) and told to all.
  template <class Choose>
  std::int32_t next_token(std::span<const std::int32_t> tokens, Choose&& choose) {
    const auto length = model_.shape().sequence;
    const auto size = static_cast<std::int64_t>(tokens.size());
    const auto used = tokens.last(static_cast<std::size_t>(std::min(size, length)));
    auto input = model_.empty_tokens(1).first;
    std::fill(input.values().begin(), input.values().end(), 0);
    if (!input.values().empty()) std::copy(used.begin(), used.end(), input.values().begin());
    model_.state().training = false;
    std::vector<float> logits(static_cast<std::size_t>(model_.shape().vocabulary));
    model_.next_logits(std::move(input), static_cast<std::int64_t>(used.size()) - 1, logits);
    std::int32_t chosen = 0;
    if (sharers().rank() == 0) chosen = choose(logits);
    communicate::broadcast(sharers(), std::span<std::int32_t>(&chosen, 1), 0);
    return chosen;
  }

 private:
  struct tokens_of_microbatch {
    typename model_type::tokens_type tokens;
    typename model_type::targets_type targets;
    std::int64_t begin = 0;
  };

  // The sequences that all data ranks together have in a microbatch.
  std::int64_t sequences_in(std::int64_t microbatch) const {
    std::int64_t all = 0;
    for (int r = 0; r < division_.ranks(); ++r) all += division_.microbatch_of(r, microbatch).size;
    return all;
  }

  std::int64_t expert_blocks() const { return model_.shape().expert_blocks(); }

  // The ranks that share the tokens of a step: along every axis that cuts them.
  communicator& sharers() const { return group_->along(model_type::cutting_tokens); }

  tokens_of_microbatch fill(const token_source& source, std::int64_t microbatch) {
    auto [tokens, targets] = model_.empty_tokens(sequences_in(microbatch));
    const region places = division_.microbatch_of(sharing_rank(), microbatch);
    if (!shapes_only::active()) source(step_, places, tokens.values(), targets.values());
    return {std::move(tokens), std::move(targets), places.begin};
  }
  int sharing_rank() const {
    const auto& grid = group_->grid();
    return grid.template coordinate<axis::data>() * grid.template extent<axis::expert>() +
           grid.template coordinate<axis::expert>();
  }

  std::int64_t count_over_all(std::int64_t counted) {
    const phase_scope inside(group_->ledger(), "count");
    sharers().call({.call = collective::all_reduce,
                    .element = element_kind::int64,
                    .from = &counted,
                    .to = &counted,
                    .count = 1},
                   {.tensor = "counted tokens"}, call_site::here());
    return counted;
  }

  // Each rank's sum is of its own rows, alike on the axes that do not cut them.
  double loss_over_all(double sum) {
    const phase_scope inside(group_->ledger(), "loss");
    sharers().call({.call = collective::all_reduce,
                    .element = element_kind::fp64,
                    .from = &sum,
                    .to = &sum,
                    .count = 1},
                   {.tensor = "loss"}, call_site::here());
    return sum;
  }

  ranks<mesh_type>* group_;
  trainer_settings settings_;
  batch_division division_;
  model_type model_;
  gradient_reduction<master> gradients_;
  adamw<master> optimizer_;
  std::int64_t step_ = 0;
};

}  // namespace tenon::inline v0
