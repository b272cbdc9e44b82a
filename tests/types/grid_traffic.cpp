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
constexpr bool formulas_hold(int side) {
  const std::int64_t others = side - 1;
  using up = linear<dims<hidden>, dims<ffn>, placed::cuts>;
  const std::int64_t x = b * s * h;
  const std::int64_t matrix = 4 * h * h;
  if (forward_bytes<up, stream>(side) != others * e * (x + matrix)) return false;
  // AB^T in e, A^T B with its sums in w.
  if (backward_bytes<up, stream>(side) != others * (e * (matrix + x) + e * x + w * matrix)) {
    return false;
  }
  using head = table_projection<"head", vocabulary, hidden, placed::cuts>;
  if (forward_bytes<head, stream>(side) != others * e * (v * h + b * s * v)) return false;
  if (backward_bytes<head, stream>(side) !=
      others * (e * (b * s * v + v * h) + e * b * s * v + w * v * h)) {
    return false;
  }
  using table = embedding<bf16, "table", vocabulary, hidden, placed::cuts>;
  if (forward_bytes<table, placed::tokens_type>(side) != others * e * v * h) return false;
  if (backward_bytes<table, placed::tokens_type>(side) != others * w * v * h) return false;
  // Two norms in a block: two sums of a number a row forward, one of two numbers backward; a sum
  // over ranks sends everything twice.
  const std::int64_t norms = others * 2 * 2 * 2 * b * s * w;
  const std::int64_t activations = 7 * b * s * h;
  const std::int64_t matrices = 12 * h * h;
  if (forward_bytes<gpt2_block<placed>, stream>(side) !=
      others * e * (activations + matrices) + norms) {
    return false;
  }
  return backward_bytes<gpt2_block<placed>, stream>(side) ==
         others * (2 * e * activations + (e + w) * matrices) + norms;
}
static_assert(formulas_hold(1) && formulas_hold(2) && formulas_hold(3) && formulas_hold(4));
static_assert(formulas_hold(7));  // some ranks have no head and no sequence

}  // namespace
