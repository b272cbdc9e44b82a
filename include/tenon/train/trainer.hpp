// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/communicate/broadcast.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/model/decoder_model.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/tied_parameter.hpp"
#include "tenon/train/batches.hpp"
#include "tenon/train/clip.hpp"
#include "tenon/train/learning_rate.hpp"
#include "tenon/train/optimizer.hpp"
#include "tenon/train/stage_runner.hpp"

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
  shard_settings shards{};
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  int chunks = 1;                                   ///< pieces of layers on each stage
  std::optional<schedule_table> own_schedule = {};  ///< in place of `schedule`
  tenon::recompute recompute = tenon::recompute::none;
  context_plan context{};  ///< how attention works over the context axis
  /// A document ends with this token, and tokens see no other document than theirs; below 0: a
  /// sequence is one document. The target of a document's last token is the first of the next one,
  /// as the text has it, and counts like the others.
  std::int32_t document_separator = -1;
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

  /// Collective. `block_groups`: see `decoder_model`. Errors: bad_request for a model or a batch
  /// that cannot be.
  trainer(ranks<mesh_type>& group, const decoder_shape& shape, trainer_settings settings,
          std::vector<ranks<mesh_type>*> block_groups = {})
      : group_(&group),
        settings_(settings),
        division_(division_on(group.grid(), settings)),
        model_(group, shape, settings.seed, settings.context, settings.chunks,
               std::move(block_groups)),
        store_(model_.units(), group.ledger(), settings.shards),
        tied_(group.pipeline(), tied_of(store_, model_.tied_name())),
        runner_(model_, store_, schedule_of(settings, group, division_)),
        optimizer_(stepped(store_, tied_), settings.optimizer) {
    model_.state().recompute = settings.recompute;
    set_overlap(settings.shards.overlap);
    store_.initialise(settings.seed);
    sharers();
    compare_plans();
  }

  model_type& model() noexcept { return model_; }
  const batch_division& division() const noexcept { return division_; }
  adamw<master>& optimizer() noexcept { return optimizer_; }
  /// The parameters of this rank's stage, each once.
  const std::vector<any_parameter<master>*>& parameters() const noexcept {
    return store_.parameters();
  }
  /// Whether gradients and weights are exchanged while layers run, and products run in pieces
  /// while a cut sequence travels; on all ranks alike, between steps. On a device products do not
  /// run in pieces: the host would wait for each.
  void set_overlap(bool overlap) noexcept {
    store_.set_overlap(overlap);
    model_.set_overlap_products(overlap && device::of_this_rank() == nullptr);
  }
  const schedule_table& schedule() const noexcept { return runner_.table(); }
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
    reduce_gradients();
    result.gradient_seconds = since(begin) - result.forward_backward_seconds;
    const auto reduced = std::chrono::steady_clock::now();
    {
      const phase_scope inside(book, "norm");
      result.gradient_norm = gradient_norm(store_.parameters(), *group_);
    }
    optimizer_.step(settings_.rate.at(step_), clip_scale(result.gradient_norm, settings_.clip),
                    step_ + 1);
    tied_.send_values();
    {
      const phase_scope inside(book, "publish");
      store_.publish();
    }
    result.optimizer_seconds = since(reduced);
    compare_plans();
    result.step = step_++;
    result.seconds = since(begin);
    result.collective_seconds = book.seconds_since_mark();
    return result;
  }

  /// Collective: forward and backward of the next batch and no more: the gradients are left as the
  /// microbatches have summed them. For tests and for `step`.
  step_result accumulate(const token_source& source) {
    step_result result;
    store_.begin_step(runner_.backwards());
    std::vector<microbatch_type> all;
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < division_.microbatches(); ++i) {
      all.push_back(fill(source, i, counted));
    }
    result.tokens = count_over_all(counted);
    // A step in which nothing counts has loss 0 and gradient 0.
    const double scale = result.tokens == 0 ? 0 : 1.0 / static_cast<double>(result.tokens);
    // Every sequence of the step counts alike, whatever microbatch and rank it is on.
    const auto balanced =
        static_cast<double>(settings_.batch * std::max<std::int64_t>(expert_blocks(), 1));
    model_.state().balance_scale = result.tokens == 0 ? 0 : settings_.balance / balanced;
    model_.state().balance_sum = 0;
    model_.state().training = true;
    model_.state().step = step_;
    const double loss = runner_.run(all, scale);
    result.loss = loss_over_all(loss) * scale;
    if (expert_blocks() > 0) {
      result.balance_loss = loss_over_all(model_.state().balance_sum) / balanced;
    }
    return result;
  }

  /// Collective: ends the sums over ranks of the gradients that `accumulate` has left.
  void reduce_gradients() {
    store_.finish_step();
    tied_.sum_gradients();
  }

  /// What a step sends for this rank, from types and shapes alone, with the present overlap.
  prices_on<mesh_type> predicted_traffic() const {
    prices_on<mesh_type> prices(group_->grid());
    std::vector<std::int64_t> sequences;
    for (std::int64_t i = 0; i < division_.microbatches(); ++i) {
      sequences.push_back(sequences_in(i));
    }
    runner_.add_prices(prices, sequences);
    tied_.add_prices(prices);
    add_prices_of_sum(prices, group_->everyone(), "norm");
    add_prices_of_sum(prices, sharers(), "count");
    for (int i = 0; i < (expert_blocks() > 0 ? 2 : 1); ++i) {  // the balancing loss, too
      add_prices_of_sum(prices, sharers(), "loss");
      add_prices_of_sum(prices, group_->pipeline(), "loss");
    }
    return prices;
  }

  /// Collective: continues `tokens` by one token, chosen by `choose` from the logits (on the first
  /// of the ranks that share tokens, alike on its ranks of the tensor axis) and told to all.
  template <class Choose>
  std::int32_t next_token(std::span<const std::int32_t> tokens, Choose&& choose) {
    const auto length = model_.shape().sequence;
    const auto size = static_cast<std::int64_t>(tokens.size());
    const auto used = tokens.last(static_cast<std::size_t>(std::min(size, length)));
    auto input = model_.empty_tokens(1).first;
    buffer<std::int32_t> whole(input.template extent<batch>() * length, place::host);
    whole.fill_with_zeros();
    if (whole.size() > 0) std::copy(used.begin(), used.end(), whole.data());
    pick(whole, input);
    model_.state().training = false;
    model_.state().documents = documents_of(whole);
    std::vector<float> logits(static_cast<std::size_t>(model_.shape().vocabulary));
    runner_.next_logits(std::move(input), static_cast<std::int64_t>(used.size()) - 1, logits);
    std::int32_t chosen = 0;
    const int last = group_->stages() - 1;
    if (sharers().rank() == 0 && group_->stage() == last) chosen = choose(logits);
    const call_options of_host{.tensor = "token", .where = place::host};
    communicate::broadcast(sharers(), std::span<std::int32_t>(&chosen, 1), 0, of_host);
    communicate::broadcast(group_->pipeline(), std::span<std::int32_t>(&chosen, 1), last, of_host);
    return chosen;
  }

 private:
  using microbatch_type = typename stage_runner<model_type>::microbatch_type;

  static schedule_table schedule_of(const trainer_settings& settings, const ranks<mesh_type>& group,
                                    const batch_division& division) {
    const schedule_sizes sizes{group.stages(), division.microbatches(), settings.chunks};
    if (!settings.own_schedule) return make_schedule(settings.schedule, sizes);
    const schedule_sizes given = settings.own_schedule->sizes;
    require(given == sizes, "the schedule given is of ", given.stages, " stages, ",
            given.microbatches, " microbatches and ", given.chunks, " chunks, and the run has ",
            sizes.stages, ", ", sizes.microbatches, " and ", sizes.chunks,
            "; give a table of these sizes");
    return *settings.own_schedule;
  }

  static any_parameter<master>* tied_of(parameter_store<master>& store, const std::string& name) {
    for (any_parameter<master>* p : store.parameters()) {
      if (p->declaration().name == name) return p;
    }
    return nullptr;
  }
  // A copy of another stage's parameter is not stepped here.
  static std::vector<any_parameter<master>*> stepped(const parameter_store<master>& store,
                                                     const tied_parameter<master>& tied) {
    std::vector<any_parameter<master>*> all;
    for (any_parameter<master>* p : store.parameters()) {
      if (!tied.is_copy() || p != tied.parameter()) all.push_back(p);
    }
    return all;
  }

  // The sequences that all data ranks together have in a microbatch.
  std::int64_t sequences_in(std::int64_t microbatch) const {
    std::int64_t all = 0;
    for (int r = 0; r < division_.ranks(); ++r) all += division_.microbatch_of(r, microbatch).size;
    return all;
  }

  void compare_plans() {
    group_->compare_plans();
    for (auto* other : model_.other_groups()) other->compare_plans();
  }
  std::int64_t expert_blocks() const { return model_.shape().expert_blocks(); }

  // The ranks that share the tokens of a step: along every axis that cuts them.
  communicator& sharers() const { return group_->along(model_type::cutting_tokens); }

  // Adds the targets here that count to `counted`.
  microbatch_type fill(const token_source& source, std::int64_t microbatch, std::int64_t& counted) {
    const std::int64_t sequences = sequences_in(microbatch);
    auto [tokens, targets] = model_.empty_tokens(sequences);
    const region places = division_.microbatch_of(sharing_rank(), microbatch);
    // The source knows whole sequences; this rank has some of their tokens.
    const std::int64_t all = places.size * model_.shape().sequence;
    buffer<std::int32_t> whole_tokens(all, place::host);
    buffer<std::int32_t> whole_targets(all, place::host);
    if (!shapes_only::active()) source(step_, places, whole_tokens.span(), whole_targets.span());
    pick(whole_tokens, tokens);
    const buffer<std::int32_t> picked = pick(whole_targets, targets);
    for (const std::int32_t target : picked.span()) counted += target >= 0 ? 1 : 0;
    return {std::move(tokens), std::move(targets), places.begin, sequences,
            documents_of(whole_tokens)};
  }
  // The tokens of whole sequences that lie here; and as the host sees them.
  template <class T>
  buffer<std::int32_t> pick(const buffer<std::int32_t>& whole, T& here) const {
    buffer<std::int32_t> picked(here.elements(), place::host);
    if (shapes_only::active()) return picked;
    const position_runs runs = model_.order().runs_of(model_.tokens_here());
    const std::int64_t rows = here.template extent<sequence>();
    for (std::int64_t i = 0; i < here.elements(); ++i) {
      picked[i] = whole[i / rows * model_.shape().sequence + runs.at(i % rows)];
    }
    copy_in(here.values(), std::span<const std::int32_t>(picked.span()));
    return picked;
  }
  std::shared_ptr<const packed_documents> documents_of(const buffer<std::int32_t>& whole) const {
    if (settings_.document_separator < 0) return nullptr;
    return std::make_shared<const packed_documents>(packed_documents::separated_by(
        settings_.document_separator, model_.shape().sequence, whole));
  }
  int sharing_rank() const {
    int rank = 0;
    for_each_sharing_axis([&]<class A>(A) {
      const auto& grid = group_->grid();
      rank = rank * grid.template extent<A>() + grid.template coordinate<A>();
    });
    return rank;
  }
  // The axes that cut the batch, outer first.
  template <class F>
  static void for_each_sharing_axis(F&& f) {
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A a) {
      if constexpr (cuts<state_on_t<typename model_type::placed::tokens, A>, batch>) f(a);
    });
  }
  static batch_division division_on(const mesh_type& grid, const trainer_settings& settings) {
    int extents[3] = {1, 1, 1};
    int i = 0;
    for_each_sharing_axis([&]<class A>(A) { extents[i++] = grid.template extent<A>(); });
    return {settings.batch, settings.microbatch, extents[0], extents[1], extents[2]};
  }

  std::int64_t count_over_all(std::int64_t counted) {
    const phase_scope inside(group_->ledger(), "count");
    return sum_over(sharers(), counted, "counted tokens");
  }

  // Each rank's sum is of its own rows, alike on the axes that do not cut them; only the last stage
  // has one.
  double loss_over_all(double sum) {
    const phase_scope inside(group_->ledger(), "loss");
    return sum_over(group_->pipeline(), sum_over(sharers(), sum, "loss"), "loss");
  }

  ranks<mesh_type>* group_;
  trainer_settings settings_;
  batch_division division_;
  model_type model_;
  parameter_store<master> store_;
  tied_parameter<master> tied_;
  stage_runner<model_type> runner_;
  adamw<master> optimizer_;
  std::int64_t step_ = 0;
};

}  // namespace tenon::inline v0
