// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/layer/mixture_of_experts.hpp"
#include "tenon/model/decoder.hpp"

// Blocks with experts: the dense blocks, with experts in place of the feed-forward layer.
namespace tenon::inline v0 {

namespace detail {

template <class Block, class FeedForward>
struct replace_feed_forward;
template <class Attention, class Dense, class FeedForward>
struct replace_feed_forward<chain<Attention, Dense>, FeedForward> {
  using type = chain<Attention, FeedForward>;
};

template <class Placed, class Norm, expert_form Form>
using experts_branch =
    named<"feed_forward",
          branch<Placed, Norm, named<"experts", mixture_of_experts<Form, typename Placed::cuts>>,
                 named<"experts", typename Placed::leave>, dropout>>;

}  // namespace detail

/// `gpt2_block` with experts, which have no biases.
template <class Placed>
using gpt2_experts_block = typename detail::replace_feed_forward<
    gpt2_block<Placed>, detail::experts_branch<Placed, layer_norm<hidden, typename Placed::cuts>,
                                               expert_form::gelu>>::type;

/// `llama_block` with experts.
/// Source: A. Jiang and others, Mixtral of experts, 2024.
template <class Placed>
using llama_experts_block = typename detail::replace_feed_forward<
    llama_block<Placed>, detail::experts_branch<Placed, rms_norm<hidden, typename Placed::cuts>,
                                                expert_form::swiglu>>::type;

}  // namespace tenon::inline v0
