// SPDX-License-Identifier: Apache-2.0
// What attention sends over contexts, against the closed formulas. Source: D. Gu and others,
// LoongTrain, 2024: with D = heads x width, a grid of d_hp x d_cp = d_sp ranks and elements of e
// bytes, forward
//   heads   e (S D / d_sp) (2 + 2 max(kv heads, d_hp) / heads) (d_hp - 1) / d_hp
//   ring    (d_cp - 1) x the keys and values of a member, of which (w - 1) d_cp / w inside windows
//           of w and d_cp / w - 1 between them
#include <concepts>
#include <tuple>

#include "tenon/layer/attention.hpp"

namespace {

using namespace tenon;

template <class KvOrHeads>
using on_contexts = tensor<bf16, KvOrHeads, placement<on<axis::context, sharded<sequence>>>>;
using query = on_contexts<dims<batch, sequence, heads, head_width>>;
using key = on_contexts<dims<batch, sequence, kv_heads, head_width>>;
using layer = bound_to<causal_attention, std::tuple<query, key, key>>;

using to_heads = all_to_all<axis::context_heads, sequence, heads>;
using ring = ring_pass<axis::context_ring>;
using outer_ring = ring_pass<axis::context_outer_ring>;
using to_tokens = all_to_all<axis::context_heads, heads, sequence>;
static_assert(std::same_as<traffic_of_t<layer::forward_transfers>,
                           traffic<to_heads, ring, outer_ring, to_tokens>>);
static_assert(std::same_as<traffic_of_t<layer::backward_transfers>,
                           traffic<to_heads, ring, outer_ring, to_tokens>>);

template <class Move, class Transfer>
constexpr std::int64_t bytes_in(const context_extents& e) {
  return std::same_as<Move, typename Transfer::move_type> ? context_price<Transfer>::bytes(e) : 0;
}
template <class Move, class... Transfers>
constexpr std::int64_t bytes(transfers<Transfers...>, const context_extents& e) {
  return (std::int64_t{0} + ... + bytes_in<Move, Transfers>(e));
}
template <class Move>
constexpr std::int64_t forward(const context_extents& e) {
  return bytes<Move>(layer::forward_transfers{}, e);
}
template <class Move>
constexpr std::int64_t backward(const context_extents& e) {
  return bytes<Move>(layer::backward_transfers{}, e);
}

constexpr bool formulas_hold(int d_hp, int d_cp, int window, std::int64_t all_heads,
                             std::int64_t all_kv) {
  constexpr std::int64_t e = 2;
  constexpr std::int64_t sequence = 64;
  constexpr std::int64_t width = 3;
  constexpr std::int64_t batch = 5;
  const int d_sp = d_hp * d_cp;
  const std::int64_t tokens = batch * e * sequence * width / d_sp;  // of one head
  const std::int64_t kv_sent = std::max<std::int64_t>(all_kv, d_hp);
  const std::int64_t exchanged = tokens * (2 * all_heads + 2 * kv_sent) / d_hp * (d_hp - 1);
  const std::int64_t block = 2 * batch * e * sequence / d_cp * (kv_sent / d_hp) * width;
  for (int rank = 0; rank < d_sp; ++rank) {
    const context_extents x{.batch = batch,
                            .sequence = sequence,
                            .heads = {0, all_heads},
                            .heads_of_kv = all_heads / all_kv,
                            .width = width,
                            .context = d_sp,
                            .rank = rank,
                            .heads_parallel = d_hp,
                            .ring_window = window};
    // Backward the gradient of o goes as o came, and those of q, k and v as these came.
    if (forward<to_heads>(x) + forward<to_tokens>(x) != exchanged) return false;
    if (backward<to_heads>(x) + backward<to_tokens>(x) != exchanged) return false;
    const std::int64_t inside = (window - 1) * d_cp / window;
    const std::int64_t outside = d_cp / window - 1;
    if (inside + outside != d_cp - 1) return false;
    if (forward<ring>(x) != inside * block || forward<outer_ring>(x) != outside * block) {
      return false;
    }
    // Gradients of keys and values are in fp32: twice the bytes, as many steps.
    if (backward<ring>(x) != 3 * inside * block) return false;
    if (backward<outer_ring>(x) != 3 * outside * block) return false;
  }
  return true;
}
// Ring attention, Ulysses, the grid, and windows; grouped-query attention with fewer kv heads than
// ranks that exchange heads.
static_assert(formulas_hold(1, 1, 1, 8, 8) && formulas_hold(1, 8, 8, 8, 8));
static_assert(formulas_hold(8, 1, 1, 8, 8) && formulas_hold(8, 1, 1, 8, 2));
static_assert(formulas_hold(2, 4, 4, 8, 4) && formulas_hold(2, 4, 2, 8, 4));
static_assert(formulas_hold(2, 4, 1, 8, 1) && formulas_hold(4, 2, 2, 8, 2));
static_assert(formulas_hold(1, 8, 4, 8, 2) && formulas_hold(1, 8, 2, 8, 2));
static_assert(formulas_hold(4, 4, 2, 16, 1) && formulas_hold(4, 4, 2, 16, 16));

// Uneven pieces: what leaves all ranks comes to all, (members - 1) times every block.
constexpr bool every_block_goes_round(int context, int heads_parallel, int window) {
  std::int64_t sent = 0;
  std::int64_t blocks = 0;
  for (int rank = 0; rank < context; ++rank) {
    const context_extents x{.batch = 2,
                            .sequence = 13,
                            .heads = {3, 4},
                            .heads_of_kv = 2,
                            .width = 1,
                            .context = context,
                            .rank = rank,
                            .heads_parallel = heads_parallel,
                            .ring_window = window};
    sent += forward<ring>(x) + forward<outer_ring>(x);
    blocks += (x.members() - 1) * x.block(x.member()) * 2;
  }
  return sent == blocks;
}
static_assert(every_block_goes_round(5, 1, 5) && every_block_goes_round(6, 2, 3));
static_assert(every_block_goes_round(6, 1, 2) && every_block_goes_round(8, 2, 2));
// Heads 3 .. 6, two on each rank that exchanges: 3 and 4 read kv heads 1 and 2, 5 and 6 2 and 3.
static_assert(context_extents{.heads = {3, 4}, .heads_of_kv = 2, .context = 2, .heads_parallel = 2}
                  .kv_heads_of(1) == region{2, 2});

}  // namespace
