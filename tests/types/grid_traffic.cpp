// SPDX-License-Identifier: Apache-2.0
// What a decoder on a grid of Q x Q ranks sends, as types, and in bytes against the closed
// formulas. Source: Q. Xu and others, An efficient 2D method for training super-large deep learning
// models (Optimus), 2021: of the products the ranks together send
//   AB     (Q - 1) (|A| + |B|)
//   AB^T   (Q - 1) (|B| + |C|)
//   A^T B  (Q - 1) (|A| + |C|)
// elements, and a block forward (Q - 1) (7 b s h + 12 h^2), backward twice as many.
#include <concepts>
#include <cstdint>

#include "tenon/layer/loss.hpp"
#include "tenon/model/decoder.hpp"
#include "tenon/model/placements.hpp"

namespace {

using namespace tenon;

using placed = decoder_placements<stream_state::grid>;
using stream = placed::stream_type<bf16>;
using row = axis::tensor_row;
using column = axis::tensor_column;

// Activations along the rows of the grid, weights along its columns.
template <class D>
using give_x = in_pieces<all_gather<column, D>>;
template <class D>
using sum_dx = in_pieces<reduce_scatter<column, D>>;
template <class D>
using give_w = in_pieces<all_gather<row, D>>;
template <class D>
using sum_dw = in_pieces<reduce_scatter<row, D>>;
using statistic = all_reduce<column>;

using to_heads = all_to_all<axis::context_heads, sequence, heads>;
using ring = ring_pass<axis::context_ring>;
using outer_ring = ring_pass<axis::context_outer_ring>;
using to_tokens = all_to_all<axis::context_heads, heads, sequence>;

// Blocks give the stream that they take.
static_assert(std::same_as<output_of<gpt2_block<placed>, stream>, stream>);
static_assert(std::same_as<output_of<llama_block<placed>, stream>, stream>);
static_assert(std::same_as<output_of<gpt2_first<placed, bf16>, placed::tokens_type>, stream>);
using logits = output_of<llama_last<placed>, stream>;
static_assert(std::same_as<logits::placement_type, placed::with_column<sharded<vocabulary>>>);

// Each product sends pieces of both operands; norms sum their statistics; attention is local but
// for contexts.
static_assert(std::same_as<forward_traffic<llama_block<placed>, stream>,
                           traffic<statistic, give_x<hidden>, give_w<hidden>, give_w<hidden>,
                                   give_w<hidden>, to_heads, ring, outer_ring, to_tokens,
                                   give_x<heads>, give_w<heads>, statistic, give_x<hidden>,
                                   give_w<hidden>, give_w<hidden>, give_x<ffn>, give_w<ffn>>>);
static_assert(std::same_as<
              backward_traffic<gpt2_block<placed>, stream>,
              traffic<give_x<ffn>, sum_dw<ffn>, give_w<ffn>, sum_dx<ffn>, give_x<hidden>,
                      sum_dw<hidden>, give_w<hidden>, sum_dx<hidden>, statistic, give_x<heads>,
                      sum_dw<heads>, give_w<heads>, sum_dx<heads>, to_heads, ring, outer_ring,
                      to_tokens, give_x<hidden>, sum_dw<hidden>, sum_dw<hidden>, sum_dw<hidden>,
                      give_w<hidden>, give_w<hidden>, give_w<hidden>, sum_dx<hidden>, statistic>>);
static_assert(std::same_as<forward_traffic<gpt2_first<placed, bf16>, placed::tokens_type>,
                           traffic<give_w<vocabulary>>>);
static_assert(std::same_as<backward_traffic<gpt2_first<placed, bf16>, placed::tokens_type>,
                           traffic<sum_dw<vocabulary>>>);
static_assert(std::same_as<forward_traffic<llama_last<placed>, stream>,
                           traffic<statistic, give_w<vocabulary>, sum_dx<vocabulary>>>);
static_assert(std::same_as<backward_traffic<llama_last<placed>, stream>,
                           traffic<give_x<vocabulary>, sum_dw<vocabulary>, give_x<vocabulary>,
                                   give_w<vocabulary>, statistic>>);
static_assert(std::same_as<forward_traffic<cross_entropy, logits>,
                           traffic<all_reduce<column, reduction::maximum>, statistic>>);

// Weights are owned as they are used; a gain is cut as the columns are, and summed over the rows.
using weight = parameter<bf16, dims<hidden, ffn>,
                         detail::grid_weight<placed::stream, row, column, hidden, ffn>>;
static_assert(std::same_as<state_on_t<weight::owned_type::placement_type, row>, sharded<hidden>> &&
              std::same_as<state_on_t<weight::owned_type::placement_type, column>, sharded<ffn>>);
using gain = partner_placement<placed::stream, dims<hidden>>;
static_assert(std::same_as<state_on_t<gain, column>, sharded<hidden>> &&
              std::same_as<state_on_t<gain, row>, replicated> &&
              std::same_as<state_on_t<gradient_placement<gain>, row>, partial>);

// Bytes of all ranks together, for sizes that no side of the grid below divides all of.
constexpr std::int64_t b = 5;
constexpr std::int64_t s = 3;
constexpr std::int64_t all_heads = 6;
constexpr std::int64_t h = 2 * all_heads;
constexpr std::int64_t v = 11;
template <class D>
constexpr std::int64_t extent_of = 0;
template <>
constexpr std::int64_t extent_of<batch> = b;
template <>
constexpr std::int64_t extent_of<sequence> = s;
template <>
constexpr std::int64_t extent_of<hidden> = h;
template <>
constexpr std::int64_t extent_of<heads> = all_heads;
template <>
constexpr std::int64_t extent_of<kv_heads> = all_heads;
template <>
constexpr std::int64_t extent_of<head_width> = 2;
template <>
constexpr std::int64_t extent_of<ffn> = 4 * h;
template <>
constexpr std::int64_t extent_of<vocabulary> = v;
template <>
constexpr std::int64_t extent_of<statistics> = 2;
template <class... Ds>
constexpr shape<dims<Ds...>> shape_of(dims<Ds...>) {
  return shape<dims<Ds...>>(extent_of<Ds>...);
}

template <class Transfer>
constexpr std::int64_t bytes_of_one(int side) {
  if constexpr (is_context_transfer<Transfer>) {
    return 0;
  } else {
    std::int64_t sum = 0;
    for (int r = 0; r < side * side; ++r) {
      sum += bytes_moved<Transfer>(shape_of(typename Transfer::dims_type{}),
                                   placed::mesh_of({.data = 1, .tensor_grid = side}, r));
    }
    return sum;
  }
}
template <class... Transfers>
constexpr std::int64_t bytes_of(transfers<Transfers...>, int side) {
  return (std::int64_t{0} + ... + bytes_of_one<Transfers>(side));
}
template <class L, class In>
constexpr std::int64_t forward_bytes(int side) {
  return bytes_of(typename bound_to<L, In>::forward_transfers{}, side);
}
template <class L, class In>
constexpr std::int64_t backward_bytes(int side) {
  return bytes_of(typename bound_to<L, In>::backward_transfers{}, side);
}

constexpr std::int64_t e = 2;  // bf16
constexpr std::int64_t w = 4;  // its wide element: gradients of weights, statistics
constexpr std::int64_t x_elements = b * s * h;
constexpr std::int64_t logit_elements = b * s * v;

// AB forward; AB^T in e and A^T B with its sums in w backward.
constexpr bool product_holds(int side) {
  using up = linear<dims<hidden>, dims<ffn>, placed::cuts>;
  const std::int64_t matrix = 4 * h * h;
  return forward_bytes<up, stream>(side) == (side - 1) * e * (x_elements + matrix) &&
         backward_bytes<up, stream>(side) ==
             (side - 1) * (e * (matrix + x_elements) + e * x_elements + w * matrix);
}
// AB^T forward, AB and A^T B backward.
constexpr bool head_holds(int side) {
  using head = table_projection<"head", vocabulary, hidden, placed::cuts>;
  return forward_bytes<head, stream>(side) == (side - 1) * e * (v * h + logit_elements) &&
         backward_bytes<head, stream>(side) ==
             (side - 1) * (e * (logit_elements + v * h) + e * logit_elements + w * v * h);
}
constexpr bool table_holds(int side) {
  using table = embedding<bf16, "table", vocabulary, hidden, placed::cuts>;
  return forward_bytes<table, placed::tokens_type>(side) == (side - 1) * e * v * h &&
         backward_bytes<table, placed::tokens_type>(side) == (side - 1) * w * v * h;
}
static_assert(product_holds(1) && head_holds(1) && table_holds(1));
static_assert(product_holds(2) && head_holds(2) && table_holds(2));
static_assert(product_holds(3) && head_holds(3) && table_holds(3));
static_assert(product_holds(4));
static_assert(head_holds(4));
// Some ranks have no sequence.
static_assert(product_holds(6));
static_assert(table_holds(6));

// Two norms in a block: two sums of a number a row forward, one of two numbers backward; a sum over
// ranks sends everything twice.
constexpr std::int64_t norms = 2 * 2 * 2 * b * s * w;
constexpr std::int64_t activations = 7 * b * s * h;
constexpr std::int64_t matrices = 12 * h * h;
constexpr bool block_forward_holds(int side) {
  return forward_bytes<gpt2_block<placed>, stream>(side) ==
         (side - 1) * (e * (activations + matrices) + norms);
}
constexpr bool block_backward_holds(int side) {
  return backward_bytes<gpt2_block<placed>, stream>(side) ==
         (side - 1) * (2 * e * activations + (e + w) * matrices + norms);
}
static_assert(block_forward_holds(2));
static_assert(block_backward_holds(2));
static_assert(block_forward_holds(3));
static_assert(block_backward_holds(3));

}  // namespace
