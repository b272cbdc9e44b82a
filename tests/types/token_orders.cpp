// SPDX-License-Identifier: Apache-2.0
// The orders of tokens over contexts: every position occurs once, for any length and any number of
// ranks, and under a causal mask zigzag is balanced exactly where twice the ranks divide the
// length.
#include "tenon/placement/token_order.hpp"

#include <utility>

namespace {

using namespace tenon;
using enum token_order_kind;

// All heads-parallel extents that divide `Context`, f(order, context, heads_parallel).
template <class F>
constexpr bool for_all_orders(std::int64_t length, int context, F&& f) {
  for (int together = 1; together <= context; ++together) {
    if (context % together != 0) continue;
    for (const auto kind : {zigzag, contiguous}) {
      if (!f(token_order(kind, length, context, together), context, together)) return false;
    }
  }
  return true;
}

constexpr bool is_a_permutation(const token_order& order) {
  std::uint64_t seen = 0;
  for (std::int64_t stored = 0; stored < order.length(); ++stored) {
    const std::int64_t position = order.position_of(stored);
    if (position < 0 || position >= order.length() || order.stored_of(position) != stored) {
      return false;
    }
    seen |= std::uint64_t{1} << position;
  }
  return seen == (std::uint64_t{1} << order.length()) - 1;
}

// The runs of a piece, of every part of it, and of a member say the same as each position.
constexpr bool runs_agree(const token_order& order, int context) {
  const auto agree = [&](region stored, const position_runs& runs) {
    for (std::int64_t i = 0; i < stored.size; ++i) {
      if (runs.at(i) != order.position_of(stored.begin + i)) return false;
      if (i > 0 && runs.at(i) <= runs.at(i - 1)) return false;
    }
    return true;
  };
  for (int m = 0; m < order.members(); ++m) {
    if (!agree(order.member(m), order.runs_of_member(m))) return false;
  }
  for (int c = 0; c < context; ++c) {
    const region piece = order.piece(c);
    if (!agree(piece, order.runs_of(piece))) return false;
    const region part{piece.begin + piece.size / 3, piece.size / 2};
    if (!agree(part, order.runs_of(part))) return false;
  }
  return true;
}

template <int Context, std::int64_t Length>
constexpr bool laws_hold = for_all_orders(Length, Context,
                                          [](const token_order& order, int all, int) {
                                            return is_a_permutation(order) &&
                                                   runs_agree(order, all);
                                          });
template <int Context, std::int64_t... Lengths>
constexpr bool laws_hold_of(std::integer_sequence<std::int64_t, Lengths...>) {
  return (laws_hold<Context, Lengths> && ...);
}
using lengths = std::make_integer_sequence<std::int64_t, 41>;
static_assert(laws_hold_of<1>(lengths{}) && laws_hold_of<2>(lengths{}));
static_assert(laws_hold_of<3>(lengths{}) && laws_hold_of<4>(lengths{}));
static_assert(laws_hold_of<5>(lengths{}) && laws_hold_of<6>(lengths{}));

// The pairs of a query and a key that it sees, for the queries of a ring member.
constexpr std::int64_t pairs_of(const token_order& order, int m) {
  std::int64_t pairs = 0;
  const region own = order.member(m);
  for (std::int64_t i = 0; i < own.size; ++i) pairs += order.runs_of_member(m).at(i) + 1;
  return pairs;
}
constexpr bool balanced(std::int64_t length, int context) {
  return for_all_orders(length, context, [&](const token_order& order, int, int together) {
    if (order == token_order(contiguous, length, context, together)) return true;
    for (int m = 0; m < order.members(); ++m) {
      if (pairs_of(order, m) * order.members() != length * (length + 1) / 2) return false;
    }
    return true;
  });
}
static_assert(balanced(4, 2) && balanced(8, 2) && balanced(12, 2) && balanced(40, 2));
static_assert(balanced(6, 3) && balanced(12, 3) && balanced(36, 3));
static_assert(balanced(8, 4) && balanced(40, 4) && balanced(10, 5) && balanced(12, 6));
// Contiguous pieces are not: the last of two has three quarters of the work, but for the diagonal.
static_assert(pairs_of({contiguous, 8, 2}, 0) == 10 && pairs_of({contiguous, 8, 2}, 1) == 26);

// T-16: 8 tokens on 2 ranks. Index 2 of rank 0 is position 6 in zigzag, 2 in contiguous order.
static_assert(token_order(zigzag, 8, 2).runs_of({0, 4}) == position_runs{0, 2, 6});
static_assert(token_order(zigzag, 8, 2).runs_of({4, 4}) == position_runs{2});
static_assert(token_order(zigzag, 8, 2).position_of(2) == 6);
static_assert(token_order(contiguous, 8, 2).position_of(2) == 2);
// One ring member of all ranks has the text as it is.
static_assert(token_order(zigzag, 8, 2, 2).position_of(5) == 5);
static_assert(token_order().position_of(7) == 7);

}  // namespace
