// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/layer/any_layer.hpp"
#include "tenon/model/decoder.hpp"
#include "tenon/model/experts_decoder.hpp"
#include "tenon/model/placements.hpp"
#include "tenon/model/shape.hpp"

namespace tenon::inline v0 {

namespace detail {

template <class P>
inline constexpr axis_mask axes_that_cut = axes_that_cut<states_of_t<P>>;
template <class... Ons>
inline constexpr axis_mask axes_that_cut<placement<Ons...>> = [] {
  axis_mask mask = 0;
  int i = 0;
  ((mask |= (is_sharded<typename Ons::held> ? axis_mask{1} : axis_mask{0}) << i, ++i), ...);
  return mask;
}();

// The regions of kv heads that ranks use when heads are cut over `parts` of them: those that their
// heads read. Where every rank owns what it uses, that is the balanced partition.
inline partition used_kv_heads(std::int64_t all_heads, std::int64_t all_kv, int parts) {
  const auto head_pieces = partition::balanced(all_heads, parts);
  const std::int64_t group = all_heads / all_kv;
  std::vector<region> used;
  for (int r = 0; r < parts; ++r) {
    const region mine = head_pieces.of(r);
    if (mine.size == 0) {
      used.push_back({0, 0});
      continue;
    }
    const std::int64_t first = mine.begin / group;
    const std::int64_t last = (mine.end() - 1) / group;
    used.push_back({first, last - first + 1});
  }
  return partition::of_regions(all_kv, std::move(used));
}

}  // namespace detail

/// A decoder as a list of layers behind the erased border, with what they share. Weights are
/// functions of (seed, name, global index): equal, bit for bit, in every layout.
/// Thread-safety: none; it belongs to one rank's thread.
template <element E, class StreamState>
class decoder_model {
 public:
  using placed = decoder_placements<StreamState>;
  using mesh_type = typename placed::mesh_type;
  using master = wide<E>;
  using stream = typename placed::template stream_type<E>;
  using tokens_type = typename placed::tokens_type;
  using last_for_types = bound_to<detail::with_loss<llama_last<placed>, cross_entropy>, stream>;
  using targets_type = typename last_for_types::targets_type;
  using total_type = typename last_for_types::total_type;

  /// The axes along which ranks have different tokens.
  static constexpr axis_mask cutting_tokens = detail::axes_that_cut<typename placed::tokens>;

  /// Builds the layers. Errors: bad_request for a shape that cannot be built.
  decoder_model(ranks<mesh_type>& group, const decoder_shape& model, std::uint64_t seed)
      : group_(&group), shape_(completed(model)) {
    check(shape_);
    state_->seed = seed;
    state_->dropout = shape_.dropout;
    sizes_->set<batch>(1)
        .template set<sequence>(shape_.sequence)
        .template set<hidden>(shape_.hidden)
        .template set<heads>(shape_.heads)
        .template set<kv_heads>(shape_.kv_heads)
        .template set<head_width>(shape_.head_width())
        .template set<ffn>(shape_.ffn)
        .template set<vocabulary>(shape_.vocabulary)
        .template set<statistics>(2)
        .template set<experts>(shape_.experts)
        .template set_use<kv_heads>([all = shape_.heads, kv = shape_.kv_heads](int parts) {
          return detail::used_kv_heads(all, kv, parts);
        });
    sizes_->experts_per_token = shape_.experts_per_token;
    // Source: T. Nguyen, J. Salazar, Transformers without tears, 2019 (small initial values).
    sizes_->deviation = std::sqrt(2.0 / (5.0 * static_cast<double>(shape_.hidden)));
    sizes_->branch_deviation =
        sizes_->deviation / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    build();
    for_each_part([&](auto& part) {
      part.for_each_parameter([&](any_parameter<master>& p) {
        if (std::find(parameters_.begin(), parameters_.end(), &p) == parameters_.end()) {
          parameters_.push_back(&p);
        }
      });
    });
    for (any_parameter<master>* p : parameters_) p->initialise(seed);
  }

  ranks<mesh_type>& group() noexcept { return *group_; }
  const decoder_shape& shape() const noexcept { return shape_; }
  run_state& state() noexcept { return *state_; }
  /// Every parameter once, a tied table too.
  const std::vector<any_parameter<master>*>& parameters() const noexcept { return parameters_; }

  /// Tokens and targets of a microbatch of `sequences` sequences over all data ranks, not set.
  std::pair<tokens_type, targets_type> empty_tokens(std::int64_t sequences) {
    const tenon::shape<dims<batch, sequence>> extents{sequences, shape_.sequence};
    return {tokens_type(*group_, extents), targets_type(*group_, extents)};
  }

  /// Forward and backward of one microbatch; adds up the gradients of scale x (sum of losses).
  /// Returns the sum of the losses of this rank's rows. Collective.
  total_type forward_backward(tokens_type tokens, targets_type targets, double scale) {
    std::vector<std::unique_ptr<any_saved>> saved;
    auto& book = group_->ledger();
    total_type total;
    {
      const phase_scope inside(book, "forward");
      auto [x, kept] = first_->forward(std::move(tokens));
      saved.push_back(std::move(kept));
      for (auto& block : blocks_) {
        auto [y, of_block] = block->forward(std::move(x));
        x = std::move(y);
        saved.push_back(std::move(of_block));
      }
      auto [sum, of_last] = last_->forward(std::move(x), std::move(targets));
      total = std::move(sum);
      saved.push_back(std::move(of_last));
    }
    const phase_scope inside(book, "backward");
    stream gradient = last_->backward(scale, take_last(saved));
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      gradient = blocks_[i]->backward(std::move(gradient), take_last(saved));
    }
    first_->backward(std::move(gradient), take_last(saved));
    return total;
  }

  /// The logits behind `position` of one sequence, for choosing the next token; the sequence is on
  /// data rank 0, and there every rank gets all of them. Collective.
  void next_logits(tokens_type tokens, std::int64_t position, std::span<float> logits) {
    const phase_scope inside(group_->ledger(), "sample");
    auto [x, kept] = first_->forward(std::move(tokens));
    for (auto& block : blocks_) x = block->forward(std::move(x)).first;
    last_->logits_at(std::move(x), position, logits);
  }

  /// What forward and backward of a microbatch of `sequences` sequences send.
  void add_prices(prices_on<mesh_type>& prices, std::int64_t sequences) const {
    dim_sizes sizes = *sizes_;
    sizes.set<batch>(sequences);
    first_->add_forward_prices(prices, sizes);
    first_->add_backward_prices(prices, sizes);
    for (const auto& block : blocks_) {
      block->add_forward_prices(prices, sizes);
      block->add_backward_prices(prices, sizes);
    }
    last_->add_forward_prices(prices, sizes);
    last_->add_backward_prices(prices, sizes);
  }

 private:
  template <class F>
  void for_each_part(F&& f) {
    f(*first_);
    for (auto& block : blocks_) f(*block);
    f(*last_);
  }

  static std::unique_ptr<any_saved> take_last(std::vector<std::unique_ptr<any_saved>>& saved) {
    auto last = std::move(saved.back());
    saved.pop_back();
    return last;
  }

  void build() {
    const layer_context<mesh_type> context{*group_, *sizes_, *state_, *shared_, ""};
    if (shape_.form == block_form::gpt2) {
      build_from<gpt2_first<placed, E>, gpt2_block<placed>, gpt2_experts_block<placed>,
                 gpt2_last<placed>>(context);
    } else {
      build_from<llama_first<placed, E>, llama_block<placed>, llama_experts_block<placed>,
                 llama_last<placed>>(context);
    }
  }
  template <class First, class Block, class ExpertsBlock, class Last>
  void build_from(const layer_context<mesh_type>& context) {
    first_ = std::make_unique<detail::erased_first_layer<First, tokens_type, stream>>(
        bound_to<First, tokens_type>(context));
    for (std::int64_t i = 0; i < shape_.layers; ++i) {
      const auto of_block = context.child(joined("blocks.", i));
      blocks_.push_back(shape_.has_experts(i) ? make_layer<ExpertsBlock, stream>(of_block)
                                              : make_layer<Block, stream>(of_block));
    }
    using last = detail::with_loss<Last, cross_entropy>;
    last_ =
        std::make_unique<detail::erased_last_layer<last, stream>>(bound_to<last, stream>(context));
  }

  ranks<mesh_type>* group_;
  decoder_shape shape_;
  // Layers keep references to these: they stay where they are when the model is moved.
  std::unique_ptr<run_state> state_ = std::make_unique<run_state>();
  std::unique_ptr<dim_sizes> sizes_ = std::make_unique<dim_sizes>();
  std::unique_ptr<shared_parameters> shared_ = std::make_unique<shared_parameters>();
  std::unique_ptr<any_first_layer<tokens_type, stream>> first_;
  std::vector<std::unique_ptr<any_layer<stream>>> blocks_;
  std::unique_ptr<any_last_layer<stream, targets_type, total_type>> last_;
  std::vector<any_parameter<master>*> parameters_;
};

}  // namespace tenon::inline v0
