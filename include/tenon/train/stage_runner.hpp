// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/communicate/broadcast.hpp"
#include "tenon/communicate/point_to_point.hpp"
#include "tenon/kernel/sum.hpp"
#include "tenon/memory/seen_by_host.hpp"
#include "tenon/model/decoder_model.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/parallel/schedule/check.hpp"
#include "tenon/parallel/schedule/table.hpp"

namespace tenon::inline v0 {

/// Runs forward and backward of a step's microbatches on one rank's stage, in the order of a
/// schedule; one rank is the case of one stage. The weights of each layer are fetched before it
/// runs and released after, its gradients handed on when they are whole.
///
/// Between two entries of the schedule the send of the one and the receive of the next are under
/// way together; of the sends before, no more stay open than the schedule needs.
///
/// Collective: `run`, by all ranks of all stages.
/// Thread-safety: none; it belongs to one rank's thread.
template <class Model>
class stage_runner {
 public:
  using stream = typename Model::stream;
  using mesh_type = typename Model::mesh_type;
  using master = typename Model::master;

  struct microbatch_type {
    typename Model::tokens_type tokens;
    typename Model::targets_type targets;
    std::int64_t begin = 0;      ///< place of this rank's first sequence in the step's batch
    std::int64_t sequences = 0;  ///< over all ranks that share the batch
    std::shared_ptr<const packed_documents> documents = {};
  };

  /// Throws bad_request when the schedule is not sound.
  stage_runner(Model& model, parameter_store<master>& store, schedule_table table)
      : model_(&model), store_(&store), table_(std::move(table)) {
    require_sound(table_);
    open_sends_ = open_sends_needed(table_);
  }

  const schedule_table& table() const noexcept { return table_; }

  /// Adds up the gradients of scale x (sum of losses) over the microbatches; returns the sum of the
  /// losses of this rank's rows, 0 but on the last stage.
  double run(std::vector<microbatch_type>& all, double scale) {
    loss_ = buffer<double>::zeros(1);
    const auto& mine = table_.ranks[static_cast<std::size_t>(model_->group().stage())];
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const schedule_entry& entry = mine[i];
      microbatch_type& microbatch = all[static_cast<std::size_t>(entry.microbatch)];
      stream in = input_of(entry, microbatch);
      model_->state().batch_begin = microbatch.begin;
      model_->state().documents = microbatch.documents;
      switch (entry.pass) {
        case pass_kind::forward: {
          const bool kept = i + 1 < mine.size() && follows(entry, mine[i + 1]);
          forward(entry, microbatch, std::move(in), kept);
          break;
        }
        case pass_kind::backward:
          backward(entry, scale, std::move(in), nullptr);
          break;
        case pass_kind::input_gradient:
          backward(entry, scale, std::move(in), &deferred_[key_of(entry)]);
          break;
        case pass_kind::weight_gradient:
          weight_gradient(entry);
          break;
      }
    }
    for (auto& [link, sends] : sends_) {
      for (open_send& each : sends) each.call.wait();
      sends.clear();
    }
    const seen_by_host<double> loss(loss_.span());
    return loss.values().empty() ? 0 : loss.values()[0];
  }

  /// What a step with such microbatches (sequences over all ranks that share the batch) sends.
  void add_prices(prices_on<mesh_type>& prices, const std::vector<std::int64_t>& sequences) const {
    const auto& mine = table_.ranks[static_cast<std::size_t>(model_->group().stage())];
    std::vector<std::int64_t> gathers(unit_count(), 0);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const schedule_entry& entry = mine[i];
      const auto& chunk = chunk_of(entry);
      const std::int64_t count = sequences[static_cast<std::size_t>(entry.microbatch)];
      const dim_sizes sizes = model_->sizes_with(count);
      const bool is_forward = entry.pass == pass_kind::forward;
      if (entry.pass == pass_kind::weight_gradient) continue;
      std::size_t unit = chunk.first_unit;
      Model::for_each_part(chunk, [&](const auto& part) {
        if (is_forward) {
          part.add_forward_prices(prices, sizes);
          ++gathers[unit];
        } else {
          part.add_backward_prices(prices, sizes);
          if (part.backward_reads_weights()) ++gathers[unit];
        }
        ++unit;
      });
      // What is kept from forward to backward is not gathered again.
      if (!is_forward && i > 0 && follows(mine[i - 1], entry)) --gathers[unit - 1];
      if (sends_to(table_.sizes, model_->group().stage(), entry) != none_of_them) {
        const auto elements = stream_layout(count).elements();
        prices.add("pipeline", "send", is_forward ? "forward" : "backward",
                   elements * static_cast<std::int64_t>(sizeof(typename stream::element_type)));
      }
    }
    store_->add_prices(prices, gathers, backwards());
  }

  /// How often a step runs each unit backward.
  std::int64_t backwards() const noexcept { return table_.sizes.microbatches; }

  /// The logits behind `position` of one sequence, for choosing the next token: whole, on the ranks
  /// of the last stage that have the sequence. Collective over all stages.
  void next_logits(typename Model::tokens_type tokens, std::int64_t position,
                   std::span<float> logits) {
    auto& line = model_->group().pipeline();
    const phase_scope inside(model_->group().ledger(), "sample");
    stream x;
    for (std::size_t v = 0; v < model_->chunks().size(); ++v) {
      auto& chunk = model_->chunks()[v];
      std::size_t unit = chunk.first_unit;
      const auto next = [&](auto&& run) {
        store_->need(unit);
        run();
        store_->release(unit++);
      };
      if (chunk.first != nullptr) {
        next([&] { x = chunk.first->forward(std::move(tokens)).first; });
      } else if (line.size() > 1) {
        x = stream(model_->group(), stream_layout(1));
        communicate::receive(line, x.values(), (line.rank() + line.size() - 1) % line.size());
      }
      for (auto& block : chunk.blocks) {
        next([&] { x = block->forward(std::move(x)).first; });
      }
      if (chunk.last != nullptr) {
        next([&] { logits_at(*chunk.last, std::move(x), position, logits); });
      } else if (line.size() > 1) {
        communicate::send(line, std::as_const(x).values(), (line.rank() + 1) % line.size());
      }
    }
  }

 private:
  // The rank of the context axis that has the position tells the others.
  template <class Last>
  void logits_at(Last& last, stream x, std::int64_t position, std::span<float> logits) {
    const token_order order = model_->order();
    const std::int64_t stored = order.stored_of(position);
    int owner = 0;
    while (stored >= order.piece(owner).end()) ++owner;
    auto& line = model_->group().template on<axis::context>();
    last.logits_at(std::move(x), owner == line.rank() ? stored - model_->tokens_here().begin : -1,
                   logits);
    communicate::broadcast(line, logits, owner, {.tensor = "logits", .where = place::host});
  }

  using key = std::pair<std::int32_t, std::int32_t>;  // microbatch, chunk
  using saved_list = std::vector<std::unique_ptr<any_saved>>;

  static key key_of(const schedule_entry& entry) { return {entry.microbatch, entry.chunk}; }
  typename Model::chunk_type& chunk_of(const schedule_entry& entry) const {
    return model_->chunks()[static_cast<std::size_t>(entry.chunk)];
  }
  std::size_t unit_count() const {
    const auto& last = model_->chunks().back();
    return last.first_unit + last.units();
  }
  layout<typename stream::dims_type, typename stream::placement_type> stream_layout(
      std::int64_t sequences) const {
    return {model_->sizes_with(sequences).of(typename stream::dims_type{}), model_->group().grid()};
  }
  // True when the second is the backward of the first, a forward that ends in the loss: what the
  // last layer has gathered serves both.
  bool follows(const schedule_entry& first, const schedule_entry& second) const {
    return first.pass == pass_kind::forward && key_of(first) == key_of(second) &&
           (second.pass == pass_kind::backward || second.pass == pass_kind::input_gradient) &&
           chunk_of(first).last != nullptr;
  }

  // What the entry takes: received, or left by another chunk of this rank. The receive is started
  // before sends are waited for.
  stream input_of(const schedule_entry& entry, const microbatch_type& microbatch) {
    const int stage = model_->group().stage();
    const std::int64_t from = receives_from(table_.sizes, stage, entry);
    const bool is_forward = entry.pass == pass_kind::forward;
    stream in;
    pending arriving;
    if (from != none_of_them) {
      const phase_scope inside(model_->group().ledger(), is_forward ? "forward" : "backward");
      in = stream(model_->group(), stream_layout(microbatch.sequences));
      arriving =
          communicate::receive(model_->group().pipeline(), in.values(), static_cast<int>(from),
                               {.tensor = is_forward ? "activations" : "gradients of activations",
                                .start_only = true,
                                .tag = is_forward ? 0 : 1});
    } else if (const auto left = handed_over_.find({is_forward, key_of(entry)});
               left != handed_over_.end()) {
      in = std::move(left->second);
      handed_over_.erase(left);
    }
    for (auto& [link, sends] : sends_) {
      while (static_cast<std::int64_t>(sends.size()) > open_sends_) {
        sends.front().call.wait();
        sends.pop_front();
      }
    }
    arriving.wait();
    return in;
  }

  // Sends what the entry gives, or leaves it to the next chunk of this rank.
  void hand_over(const schedule_entry& entry, stream out) {
    const int stage = model_->group().stage();
    const bool is_forward = entry.pass == pass_kind::forward;
    const std::int64_t to = sends_to(table_.sizes, stage, entry);
    if (to == none_of_them) {
      const auto chunk = is_forward ? entry.chunk + 1 : entry.chunk - 1;
      handed_over_[{is_forward, {entry.microbatch, chunk}}] = std::move(out);
      return;
    }
    const phase_scope inside(model_->group().ledger(), is_forward ? "forward" : "backward");
    auto call = communicate::send(
        model_->group().pipeline(), std::as_const(out).values(), static_cast<int>(to),
        {.tensor = is_forward ? "activations" : "gradients of activations",
         .start_only = true,
         .tag = is_forward ? 0 : 1});
    sends_[is_forward].push_back({std::move(out), std::move(call)});
  }

  void forward(const schedule_entry& entry, microbatch_type& microbatch, stream x, bool keep) {
    const phase_scope inside(model_->group().ledger(), "forward");
    auto& chunk = chunk_of(entry);
    saved_list& saved = saved_[key_of(entry)];
    std::size_t unit = chunk.first_unit;
    const std::size_t end = unit + chunk.units();
    const auto next = [&](auto&& run) {
      store_->need(unit);
      if (store_->settings().overlap && unit + 1 < end) store_->fetch(unit + 1);
      run();
      if (!keep || unit + 1 < end) store_->release(unit);
      ++unit;
    };
    if (chunk.first != nullptr) {
      next([&] {
        auto [y, kept] = chunk.first->forward(std::move(microbatch.tokens));
        x = std::move(y);
        saved.push_back(std::move(kept));
      });
    }
    for (auto& block : chunk.blocks) {
      next([&] {
        auto [y, kept] = block->forward(std::move(x));
        x = std::move(y);
        saved.push_back(std::move(kept));
      });
    }
    if (chunk.last == nullptr) {
      return hand_over(entry, std::move(x));
    }
    next([&] {
      auto [total, kept] = chunk.last->forward(std::move(x), std::move(microbatch.targets));
      saved.push_back(std::move(kept));
      kernel::sum_into(loss_.data(), std::as_const(total).values(), kernel::output::accumulate);
    });
  }

  void backward(const schedule_entry& entry, double scale, stream gradient,
                deferred_products* later) {
    const phase_scope inside(model_->group().ledger(), "backward");
    auto& chunk = chunk_of(entry);
    saved_list saved = std::move(saved_.extract(key_of(entry)).mapped());
    std::size_t unit = chunk.first_unit + chunk.units();
    model_->state().deferred = later;
    const auto next = [&](const auto& part, const auto* before, auto&& run) {
      --unit;
      if (part.backward_reads_weights()) store_->need(unit);
      if (store_->settings().overlap && before != nullptr && before->backward_reads_weights()) {
        store_->fetch(unit - 1);
      }
      store_->begin_backward(unit);
      run();
      saved.pop_back();
      if (later == nullptr) store_->end_backward(unit);
      store_->release(unit);
    };
    using any = any_part<master, mesh_type>;
    const auto part_before = [&](std::size_t block) -> const any* {
      if (block > 0) return chunk.blocks[block - 1].get();
      return chunk.first.get();
    };
    if (chunk.last != nullptr) {
      next(*chunk.last, part_before(chunk.blocks.size()),
           [&] { gradient = chunk.last->backward(scale, std::move(saved.back())); });
    }
    for (std::size_t i = chunk.blocks.size(); i-- > 0;) {
      next(*chunk.blocks[i], part_before(i), [&] {
        gradient = chunk.blocks[i]->backward(std::move(gradient), std::move(saved.back()));
      });
    }
    if (chunk.first == nullptr) {
      model_->state().deferred = nullptr;
      hand_over(entry, std::move(gradient));
      return;
    }
    next(*chunk.first, static_cast<const any*>(nullptr),
         [&] { chunk.first->backward(std::move(gradient), std::move(saved.back())); });
    model_->state().deferred = nullptr;
  }

  void weight_gradient(const schedule_entry& entry) {
    auto products = std::move(deferred_.extract(key_of(entry)).mapped());
    for (auto& product : products) {
      product();
      product = nullptr;
    }
    const auto& chunk = chunk_of(entry);
    for (std::size_t unit = chunk.first_unit + chunk.units(); unit-- > chunk.first_unit;) {
      store_->end_backward(unit);
    }
  }

  struct open_send {
    stream values;
    pending call;
  };

  Model* model_;
  parameter_store<master>* store_;
  schedule_table table_;
  buffer<double> loss_;  // one number, in the rank's memory until the step has run
  std::int64_t open_sends_ = 0;
  std::map<key, saved_list> saved_;
  std::map<key, deferred_products> deferred_;
  std::map<std::pair<bool, key>, stream> handed_over_;
  std::map<bool, std::deque<open_send>> sends_;  // of activations (true) and of gradients
};

}  // namespace tenon::inline v0
