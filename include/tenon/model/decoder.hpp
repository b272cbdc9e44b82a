// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/layer/attention.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/dropout.hpp"
#include "tenon/layer/embedding.hpp"
#include "tenon/layer/feed_forward.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/overlapped_products.hpp"
#include "tenon/layer/recomputable.hpp"
#include "tenon/layer/residual.hpp"
#include "tenon/layer/rotary_positions.hpp"

// The decoder, as compositions of layers. `Placed` says where things live (placements.hpp): what is
// cut where, and the moves into and out of a block's products.
namespace tenon::inline v0 {

/// One branch of a block: norm, products from the hidden dim to other dims, what happens there, the
/// product back.
template <class Placed, class Norm, class Products, class... Inside>
using branch = residual<
    chain<named<"norm", Norm>, move_then_products<typename Placed::enter, Products>, Inside...>>;

/// The product back, and the move back to the stream.
template <class Placed, part_name Name, class From>
using product_back = product_then_move<named<Name, linear<From, dims<hidden>, typename Placed::cuts,
                                                          bias_use::without, branch_end::yes>>,
                                       named<Name, typename Placed::leave>>;

/// The branch that reads other tokens: what `recompute::attention` runs once more.
template <class Placed, class Norm, class Products, class... Inside>
using attention_branch =
    named<"attention", recomputable<branch<Placed, Norm, Products, Inside...>>>;

/// Attention and a feed-forward layer with GELU, with biases.
/// Source: A. Radford and others, Language models are unsupervised multitask learners, 2019.
template <class Placed>
using gpt2_block = chain<
    attention_branch<Placed, layer_norm<hidden, typename Placed::cuts>,
                     projections<dims<hidden>, typename Placed::cuts,
                                 projection<"query", dims<heads, head_width>, bias_use::with>,
                                 projection<"key", dims<kv_heads, head_width>, bias_use::with>,
                                 projection<"value", dims<kv_heads, head_width>, bias_use::with>>,
                     causal_attention, product_back<Placed, "output", dims<heads, head_width>>,
                     named<"output", bias<dims<hidden>>>, dropout>,
    named<
        "feed_forward",
        branch<Placed, layer_norm<hidden, typename Placed::cuts>,
               named<"up", linear<dims<hidden>, dims<ffn>, typename Placed::cuts, bias_use::with>>,
               pointwise<function::gelu>, product_back<Placed, "down", dims<ffn>>,
               named<"down", bias<dims<hidden>>>, dropout>>>;

/// Attention with rotary positions and a feed-forward layer with SwiGLU, without biases.
/// Source: H. Touvron and others, LLaMA, 2023; grouped-query attention: J. Ainslie and others,
/// 2023.
template <class Placed>
using llama_block =
    chain<attention_branch<Placed, rms_norm<hidden, typename Placed::cuts>,
                           projections<dims<hidden>, typename Placed::cuts,
                                       projection<"query", dims<heads, head_width>>,
                                       projection<"key", dims<kv_heads, head_width>>,
                                       projection<"value", dims<kv_heads, head_width>>>,
                           rotary_positions, causal_attention,
                           product_back<Placed, "output", dims<heads, head_width>>, dropout>,
          named<"feed_forward",
                branch<Placed, rms_norm<hidden, typename Placed::cuts>,
                       projections<dims<hidden>, typename Placed::cuts,
                                   projection<"gate", dims<ffn>>, projection<"up", dims<ffn>>>,
                       swiglu, product_back<Placed, "down", dims<ffn>>, dropout>>>;

/// From tokens to the stream.
template <class Placed, class E>
using gpt2_first = chain<embedding<E, "embedding", vocabulary, hidden, typename Placed::cuts>,
                         named<"embedding", typename Placed::leave>,
                         learned_positions<"positions", hidden>, named<"embedding", dropout>>;
template <class Placed, class E>
using llama_first = chain<embedding<E, "embedding", vocabulary, hidden, typename Placed::cuts>,
                          named<"embedding", typename Placed::leave>, named<"embedding", dropout>>;

/// From the stream to logits; gpt2 ties the head to the embedding.
template <class Placed>
using gpt2_last = chain<named<"final_norm", layer_norm<hidden, typename Placed::cuts>>,
                        named<"head", typename Placed::enter>,
                        table_projection<"embedding", vocabulary, hidden, typename Placed::cuts>>;
template <class Placed>
using llama_last = chain<named<"final_norm", rms_norm<hidden, typename Placed::cuts>>,
                         named<"head", typename Placed::enter>,
                         table_projection<"head", vocabulary, hidden, typename Placed::cuts>>;

}  // namespace tenon::inline v0
