// SPDX-License-Identifier: Apache-2.0
// What the decoder's layers send follows from their types alone: of tensor parallelism, with the
// stream whole between blocks and with its sequence cut. The lists below are written by hand.
#include <concepts>
#include <cstdint>

#include "tenon/layer/loss.hpp"
#include "tenon/model/decoder.hpp"
#include "tenon/model/placements.hpp"

namespace {

using namespace tenon;

using whole = decoder_placements<stream_state::whole>;
using split = decoder_placements<stream_state::split_sequence>;
template <class Placed>
using stream = Placed::template stream_type<bf16>;

using sum = all_reduce<axis::tensor>;
using gather = all_gather<axis::tensor, sequence>;
using scatter = reduce_scatter<axis::tensor, sequence>;

// What attention exchanges over contexts: heads, a ring in windows, heads back.
using to_heads = all_to_all<axis::context_heads, sequence, heads>;
using ring = ring_pass<axis::context_ring>;
using outer_ring = ring_pass<axis::context_outer_ring>;
using to_tokens = all_to_all<axis::context_heads, heads, sequence>;

// Between blocks the stream is whole: each branch ends in one sum over the ranks, and the gradient
// of each branch's input is one sum more.
template <template <class> class Block>
constexpr bool block_sums_twice =
    std::same_as<forward_traffic<Block<whole>, stream<whole>>,
                 traffic<to_heads, ring, outer_ring, to_tokens, sum, sum>>&&
        std::same_as<backward_traffic<Block<whole>, stream<whole>>,
                     traffic<sum, to_heads, ring, outer_ring, to_tokens, sum>>;
static_assert(block_sums_twice<gpt2_block>);
static_assert(block_sums_twice<llama_block>);

// The sequence is cut: a branch gathers what it reads and scatters what it gives; backward the same
// in reverse.
template <template <class> class Block>
constexpr bool block_gathers_and_scatters = std::same_as<
    forward_traffic<Block<split>, stream<split>>,
    traffic<gather, to_heads, ring, outer_ring, to_tokens, scatter, gather, scatter>>&&
    std::same_as<backward_traffic<Block<split>, stream<split>>,
                 traffic<gather, scatter, gather, to_heads, ring, outer_ring, to_tokens, scatter>>;
static_assert(block_gathers_and_scatters<gpt2_block>);
static_assert(block_gathers_and_scatters<llama_block>);

// Blocks give the stream that they take, of the same dims and states.
static_assert(std::same_as<output_of<gpt2_block<whole>, stream<whole>>, stream<whole>>);
static_assert(std::same_as<output_of<llama_block<split>, stream<split>>, stream<split>>);

// From tokens: the rows of the table are cut, so the first stream is a sum too. Backward a whole
// stream has the gradient already where the table needs it.
using tokens = whole::tokens_type;
static_assert(std::same_as<output_of<gpt2_first<whole, bf16>, tokens>, stream<whole>>);
static_assert(std::same_as<output_of<gpt2_first<split, bf16>, tokens>, stream<split>>);
static_assert(std::same_as<forward_traffic<gpt2_first<whole, bf16>, tokens>, traffic<sum>>);
static_assert(std::same_as<backward_traffic<gpt2_first<whole, bf16>, tokens>, traffic<>>);
static_assert(std::same_as<forward_traffic<llama_first<split, bf16>, tokens>, traffic<scatter>>);
static_assert(std::same_as<backward_traffic<llama_first<split, bf16>, tokens>, traffic<gather>>);

// To logits, cut along the vocabulary.
static_assert(std::same_as<forward_traffic<gpt2_last<whole>, stream<whole>>, traffic<>>);
static_assert(std::same_as<backward_traffic<gpt2_last<whole>, stream<whole>>, traffic<sum>>);
static_assert(std::same_as<forward_traffic<llama_last<split>, stream<split>>, traffic<gather>>);
static_assert(std::same_as<backward_traffic<llama_last<split>, stream<split>>, traffic<scatter>>);
using logits = output_of<llama_last<split>, stream<split>>;
static_assert(std::same_as<logits::placement_type, whole::with_tensor<sharded<vocabulary>>>);

// The loss needs a maximum and a sum of each row, and sends nothing backward.
static_assert(std::same_as<forward_traffic<cross_entropy, logits>,
                           traffic<all_reduce<axis::tensor, reduction::maximum>, sum>>);
static_assert(std::same_as<backward_traffic<cross_entropy, logits>, traffic<>>);

// In bytes, for one rank of 2 x 4: a sum over the ranks of n elements is a scatter and a gather,
// 2 (n - n/4) elements, so that cutting the sequence costs nothing.
template <class Transfer>
constexpr std::int64_t stream_bytes_of() {
  if constexpr (is_context_transfer<Transfer>) {
    return context_price<Transfer>::bytes({.batch = 2, .sequence = 8, .heads = {0, 1}, .width = 4});
  } else {
    constexpr shape<dims<batch, sequence, hidden>> extents(4, 8, 16);
    return bytes_moved<Transfer>(extents, mesh_of({.data = 2, .tensor = 4}, 0));
  }
}
template <class... Transfers>
constexpr std::int64_t stream_bytes(transfers<Transfers...>) {
  return (std::int64_t{0} + ... + stream_bytes_of<Transfers>());
}
constexpr std::int64_t rows_here = 2 * 8 * 16;                         // the batch is cut in two
constexpr std::int64_t one_sum = 2 * (rows_here - rows_here / 4) * 2;  // bf16 has 2 bytes
static_assert(stream_bytes(bound_to<gpt2_block<whole>, stream<whole>>::forward_transfers{}) ==
              2 * one_sum);
static_assert(stream_bytes(bound_to<gpt2_block<split>, stream<split>>::forward_transfers{}) ==
              2 * one_sum);
static_assert(stream_bytes(bound_to<llama_block<whole>, stream<whole>>::backward_transfers{}) ==
              2 * one_sum);
static_assert(stream_bytes(bound_to<llama_block<split>, stream<split>>::backward_transfers{}) ==
              2 * one_sum);

}  // namespace
