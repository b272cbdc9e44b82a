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
#include "tenon/layer/remeshed.hpp"
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

  /// A run of neighbouring layers; a stage has one, or, interleaved, several. The first chunk of
  /// all begins with the table, the last ends in the loss. Its units, the layers in their order,
  /// are numbered from `first_unit` on among those of the rank.
  struct chunk_type {
    std::unique_ptr<any_first_layer<tokens_type, stream>> first;
    std::vector<std::unique_ptr<any_layer<stream>>> blocks;
    std::unique_ptr<any_last_layer<stream, targets_type, total_type>> last;
    std::size_t first_unit = 0;

    std::size_t units() const noexcept {
      return blocks.size() + (first != nullptr ? 1 : 0) + (last != nullptr ? 1 : 0);
    }
  };

  /// Collective over the stage. Builds the layers of this rank's stage, in so many chunks; their
  /// parameters have no values before a `parameter_store` initialises them. Errors: bad_request for
  /// a shape that cannot be built, or fewer layers than chunks of all stages.
  ///
  /// Block i lives on the mesh of `block_groups[i]`, where that is given: another mesh of the ranks
  /// of its stage, which must outlive the model. Where meshes meet, the stream is brought over.
  decoder_model(ranks<mesh_type>& group, const decoder_shape& model, std::uint64_t seed,
                const context_plan& context = {}, int chunks = 1,
                std::vector<ranks<mesh_type>*> block_groups = {})
      : group_(&group), shape_(completed(model)), block_groups_(std::move(block_groups)) {
    check(shape_);
    block_groups_.resize(static_cast<std::size_t>(shape_.layers), nullptr);
    for (const auto* other : block_groups_) {
      require(
          other == nullptr || shape_.dropout == 0,
          "dropout is a function of a sequence's place in the batch, and blocks on other meshes "
          "do not know it; set dropout to 0, or give all blocks one mesh");
      require(
          other == nullptr || other->grid().template extent<axis::context>() ==
                                  group.grid().template extent<axis::context>(),
          "blocks on meshes of different context extents have their tokens in different orders; "
          "give all of them one context extent");
    }
    const int virtual_stages = group.stages() * chunks;
    require(shape_.layers >= virtual_stages, "--layers ", shape_.layers, " cannot be cut into ",
            virtual_stages, " stages of one layer or more; type --layers ", virtual_stages,
            " or more, or fewer stages with --pipeline or --chunks");
    state_->seed = seed;
    state_->dropout = shape_.dropout;
    sizes_->set<batch>(1)
        .template set<sequence>(shape_.sequence)
        .template set<positions>(shape_.sequence)
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
    sizes_->context = context;
    sizes_->experts_per_token = shape_.experts_per_token;
    // Source: T. Nguyen, J. Salazar, Transformers without tears, 2019 (small initial values).
    sizes_->deviation = std::sqrt(2.0 / (5.0 * static_cast<double>(shape_.hidden)));
    sizes_->branch_deviation =
        sizes_->deviation / std::sqrt(2.0 * static_cast<double>(shape_.layers));
    build(chunks);
    for (const auto& unit : units()) {
      for (any_parameter<master>* p : unit) {
        if (p->declaration().name == tied_name()) p->mark_tied();
      }
    }
  }

  ranks<mesh_type>& group() noexcept { return *group_; }
  const decoder_shape& shape() const noexcept { return shape_; }
  run_state& state() noexcept { return *state_; }
  /// See `dim_sizes::overlap_products`; on all ranks alike, between steps.
  void set_overlap_products(bool overlap) noexcept { sizes_->overlap_products = overlap; }
  /// The other meshes on which blocks live, each once.
  std::vector<ranks<mesh_type>*> other_groups() const {
    std::vector<ranks<mesh_type>*> all;
    for (ranks<mesh_type>* other : block_groups_) {
      if (other != nullptr && std::find(all.begin(), all.end(), other) == all.end()) {
        all.push_back(other);
      }
    }
    return all;
  }
  std::vector<chunk_type>& chunks() noexcept { return chunks_; }
  /// The parameters of each unit; a tied table is in both of its units.
  std::vector<std::vector<any_parameter<master>*>> units() {
    std::vector<std::vector<any_parameter<master>*>> all;
    for (auto& chunk : chunks_) {
      for_each_part(chunk, [&](auto& part) {
        auto& unit = all.emplace_back();
        part.for_each_parameter([&](any_parameter<master>& p) {
          if (std::find(unit.begin(), unit.end(), &p) == unit.end()) unit.push_back(&p);
        });
      });
    }
    return all;
  }
  /// The name of the parameter that the first and the last layer of all share; empty when none is.
  std::string tied_name() const {
    return shape_.form == block_form::gpt2 ? std::string("embedding") : std::string();
  }

  /// Tokens and targets of a microbatch of `sequences` sequences over all data ranks, not set.
  std::pair<tokens_type, targets_type> empty_tokens(std::int64_t sequences) {
    const tenon::shape<dims<batch, sequence>> extents{sequences, shape_.sequence};
    return {tokens_type(*group_, extents), targets_type(*group_, extents)};
  }

  /// Calls f(part) for the parts of a chunk, in their order.
  template <class F>
  static void for_each_part(const chunk_type& chunk, F&& f) {
    if (chunk.first != nullptr) f(*chunk.first);
    for (const auto& block : chunk.blocks) f(*block);
    if (chunk.last != nullptr) f(*chunk.last);
  }

  /// In which order the tokens of a sequence lie on the ranks, and which of them lie here.
  token_order order() const { return order_on(group_->grid(), shape_.sequence, sizes_->context); }
  region tokens_here() const {
    return order().piece(group_->grid().template coordinate<axis::context>());
  }

  /// The sizes that a microbatch of `sequences` sequences over all ranks has.
  dim_sizes sizes_with(std::int64_t sequences) const {
    dim_sizes sizes = *sizes_;
    sizes.template set<batch>(sequences);
    return sizes;
  }

 private:
  // Where the placements carry no experts, the dense block stands for it and is never built so.
  template <block_form Form>
  static auto experts_block_of() {
    if constexpr (!placed::carries_experts) {
      return std::type_identity<
          std::conditional_t<Form == block_form::gpt2, gpt2_block<placed>, llama_block<placed>>>{};
    } else if constexpr (Form == block_form::gpt2) {
      return std::type_identity<gpt2_experts_block<placed>>{};
    } else {
      return std::type_identity<llama_experts_block<placed>>{};
    }
  }
  template <block_form Form>
  using experts_block = typename decltype(experts_block_of<Form>())::type;

  void build(int chunks) {
    require(placed::carries_experts || shape_.experts == 0, "--experts ", shape_.experts,
            " does not go with --tensor-grid: no layer of experts is cut in two directions; type "
            "--tensor instead");
    const layer_context<mesh_type> context{*group_, *sizes_, *state_, *shared_, ""};
    std::size_t units = 0;
    for (int v = 0; v < chunks; ++v) {
      const int virtual_stage = v * group_->stages() + group_->stage();
      auto& chunk = chunks_.emplace_back();
      chunk.first_unit = units;
      const int all = chunks * group_->stages();
      if (shape_.form == block_form::gpt2) {
        build_from<gpt2_first<placed, E>, gpt2_block<placed>, experts_block<block_form::gpt2>,
                   gpt2_last<placed>>(chunk, context, virtual_stage, all);
      } else {
        build_from<llama_first<placed, E>, llama_block<placed>, experts_block<block_form::llama>,
                   llama_last<placed>>(chunk, context, virtual_stage, all);
      }
      units += chunk.units();
    }
  }
  template <class First, class Block, class ExpertsBlock, class Last>
  void build_from(chunk_type& chunk, const layer_context<mesh_type>& context, int virtual_stage,
                  int virtual_stages) {
    if (virtual_stage == 0) {
      chunk.first = std::make_unique<detail::erased_first_layer<First, tokens_type, stream>>(
          bound_to<First, tokens_type>(context));
    }
    const region blocks = partition::balanced(shape_.layers, virtual_stages).of(virtual_stage);
    ranks<mesh_type>* here = group_;
    const auto go_to = [&](ranks<mesh_type>* there, std::int64_t i) {
      if (there == here) return;
      chunk.blocks.push_back(
          std::make_unique<remesh_border<stream>>(*here, *there, joined("before block ", i)));
      here = there;
    };
    for (std::int64_t i = blocks.begin; i < blocks.end(); ++i) {
      ranks<mesh_type>* const wanted = block_groups_[static_cast<std::size_t>(i)];
      go_to(wanted != nullptr ? wanted : group_, i);
      const layer_context<mesh_type> there{*here, context.sizes, context.state, context.shared, ""};
      const auto of_block = there.child(joined("blocks.", i));
      auto block = shape_.has_experts(i) ? make_layer<ExpertsBlock, stream>(of_block)
                                         : make_layer<Block, stream>(of_block);
      if (here != group_) block = std::make_unique<on_mesh<stream>>(here->grid(), std::move(block));
      chunk.blocks.push_back(std::move(block));
    }
    go_to(group_, blocks.end());
    if (virtual_stage + 1 == virtual_stages) {
      using last = detail::with_loss<Last, cross_entropy>;
      chunk.last = std::make_unique<detail::erased_last_layer<last, stream>>(
          bound_to<last, stream>(context));
    }
  }

  ranks<mesh_type>* group_;
  decoder_shape shape_;
  std::vector<ranks<mesh_type>*> block_groups_;
  // Layers keep references to these: they stay where they are when the model is moved.
  std::unique_ptr<run_state> state_ = std::make_unique<run_state>();
  std::unique_ptr<dim_sizes> sizes_ = std::make_unique<dim_sizes>();
  std::unique_ptr<shared_parameters> shared_ = std::make_unique<shared_parameters>();
  std::vector<chunk_type> chunks_;
};

}  // namespace tenon::inline v0
