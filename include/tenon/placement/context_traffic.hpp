// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/base/element.hpp"
#include "tenon/placement/move.hpp"
#include "tenon/placement/partition.hpp"

namespace tenon::inline v0 {

namespace axis {

/// The ring between windows of the context ring. No mesh names it: the two extents of the ring are
/// values of a run, and this is the name under which its bytes are counted.
struct context_outer_ring {
  static constexpr std::string_view name = "context_outer_ring";
  static constexpr int order = 29;
};

}  // namespace axis

/// Keys and values go round a ring until every rank has had them all; their gradients follow.
template <mesh_axis Axis>
struct ring_pass {};

/// What the exchanges of attention over the ranks of a context axis depend on, seen from one rank.
/// The C ranks are R = C / H ring members of H ranks each; rank c is in member c / H. A ring of R
/// members is R / W rings of W members, the windows, with a ring between them; W = 0 is one window.
///
///   C = 8, H = 2, W = 2     member 0   1 | 2   3         heads exchanged   c = (0 1), (2 3), ...
///                           ranks  01 23 | 45 67         inner rings       (0 2) (1 3) (4 6) (5 7)
///                                                        outer rings       (0 4) (1 5) (2 6) (3 7)
///
/// Source: D. Gu and others, LoongTrain: efficient training of long-sequence LLMs with
/// head-context parallelism, 2024 (2D-Attention, Double-Ring-Attention).
/// Thread-safety: a value.
struct context_extents {
  std::int64_t batch = 0;        ///< sequences here
  std::int64_t sequence = 0;     ///< tokens of a whole sequence
  region heads{};                ///< q heads here before the exchange, in global numbers
  std::int64_t heads_of_kv = 1;  ///< q heads that read one kv head
  std::int64_t width = 0;        ///< of a head
  int context = 1;               ///< C
  int rank = 0;                  ///< c
  int heads_parallel = 1;        ///< H
  int ring_window = 0;           ///< W

  constexpr int members() const noexcept { return context / heads_parallel; }
  constexpr int member() const noexcept { return rank / heads_parallel; }
  constexpr int head_rank() const noexcept { return rank % heads_parallel; }
  constexpr int window() const noexcept { return ring_window == 0 ? members() : ring_window; }
  constexpr int windows() const noexcept { return members() / window(); }
  constexpr int inner() const noexcept { return member() % window(); }
  constexpr int outer() const noexcept { return member() / window(); }

  /// Stored indices of a rank, and of a ring member.
  constexpr region piece(int c) const noexcept { return balanced_region(sequence, context, c); }
  constexpr region tokens_of(int member) const noexcept {
    const region first = piece(member * heads_parallel);
    const region last = piece((member + 1) * heads_parallel - 1);
    return {first.begin, last.end() - first.begin};
  }
  /// The q heads of a rank of a member after the exchange, and the kv heads that these read: those
  /// of two ranks overlap where there are fewer kv heads than ranks. Global numbers.
  constexpr region heads_of(int h) const noexcept {
    const region mine = balanced_region(heads.size, heads_parallel, h);
    return {heads.begin + mine.begin, mine.size};
  }
  constexpr region kv_heads_of(int h) const noexcept {
    const region mine = heads_of(h);
    if (mine.size == 0) return {mine.begin / heads_of_kv, 0};
    const std::int64_t begin = mine.begin / heads_of_kv;
    return {begin, (mine.end() - 1) / heads_of_kv + 1 - begin};
  }

  /// Whose keys this rank works on in step s of window step t.
  constexpr int origin(int t, int s) const noexcept {
    const int g = (outer() - t % windows() + windows()) % windows();
    const int i = (inner() - s % window() + window()) % window();
    return g * window() + i;
  }
  /// Elements of the keys and values of a ring member, as they go round.
  constexpr std::int64_t block(int member) const noexcept {
    return 2 * batch * tokens_of(member).size * kv_heads_of(head_rank()).size * width;
  }
};

namespace detail {

// The elements of `heads`-wide and of kv tensors that go to other ranks when tokens become heads.
constexpr std::int64_t sent_for_heads(const context_extents& e, std::int64_t of_q,
                                      std::int64_t of_kv) noexcept {
  std::int64_t columns = 0;
  for (int h = 0; h < e.heads_parallel; ++h) {
    if (h == e.head_rank()) continue;
    columns += of_q * e.heads_of(h).size + of_kv * e.kv_heads_of(h).size;
  }
  return e.batch * e.piece(e.rank).size * columns * e.width;
}
// The same when heads become tokens again.
constexpr std::int64_t sent_for_tokens(const context_extents& e, std::int64_t of_q,
                                       std::int64_t of_kv) noexcept {
  const std::int64_t rows = e.tokens_of(e.member()).size - e.piece(e.rank).size;
  return e.batch * rows * e.width *
         (of_q * e.heads_of(e.head_rank()).size + of_kv * e.kv_heads_of(e.head_rank()).size);
}
// The elements of keys and values that this rank passes on; their gradients start one step later
// and end one step later, at home: as many steps, of other blocks.
constexpr std::int64_t passed_inside(const context_extents& e, int later) noexcept {
  std::int64_t sum = 0;
  for (int t = 0; t < e.windows(); ++t) {
    for (int s = 0; s + 1 < e.window(); ++s) sum += e.block(e.origin(t, s + later));
  }
  return sum;
}
constexpr std::int64_t passed_outside(const context_extents& e, int later) noexcept {
  std::int64_t sum = 0;
  for (int t = 0; t + 1 < e.windows(); ++t) sum += e.block(e.origin(t + later, 0));
  return sum;
}

}  // namespace detail

/// What attention over contexts sends in one of its exchanges, in the element `E`, or, what gathers
/// gradients of keys and values on its way round a ring, in the wide one. `Query` is the placement
/// of the queries. Its price is `context_price`, from extents alone.
template <class Move, bool Backward, element E, class Query>
struct context_transfer {
  using move_type = Move;
  using placement_type = Query;
};

template <class Transfer>
inline constexpr bool is_context_transfer = false;
template <class Move, bool Backward, class E, class Query>
inline constexpr bool is_context_transfer<context_transfer<Move, Backward, E, Query>> = true;

/// The call that carries a transfer, and between how many ranks it runs.
struct context_line {
  std::string_view axis;
  std::string_view call;
  int ranks;
};

namespace detail {

template <class From, class To>
constexpr context_line line_of_move(all_to_all<axis::context_heads, From, To>,
                                    const context_extents& e) {
  return {axis::context_heads::name, "all_to_all", e.heads_parallel};
}
constexpr context_line line_of_move(ring_pass<axis::context_ring>, const context_extents& e) {
  return {axis::context_ring::name, "send", e.window()};
}
constexpr context_line line_of_move(ring_pass<axis::context_outer_ring>, const context_extents& e) {
  return {axis::context_outer_ring::name, "send", e.windows()};
}

// Bytes that this rank sends: element size `e`, and `w` of the wide one.
template <bool Backward, class From, class To>
constexpr std::int64_t context_bytes(all_to_all<axis::context_heads, From, To>,
                                     const context_extents& x, std::int64_t e, std::int64_t) {
  // Forward q, k and v become heads, backward the gradient of o does; the others go the other way.
  constexpr bool to_heads = std::is_same_v<To, heads>;
  constexpr int of_kv = to_heads == Backward ? 0 : 2;
  return e * (to_heads ? sent_for_heads(x, 1, of_kv) : sent_for_tokens(x, 1, of_kv));
}
template <bool Backward>
constexpr std::int64_t context_bytes(ring_pass<axis::context_ring>, const context_extents& x,
                                     std::int64_t e, std::int64_t w) {
  return e * passed_inside(x, 0) + (Backward ? w * passed_inside(x, 1) : 0);
}
template <bool Backward>
constexpr std::int64_t context_bytes(ring_pass<axis::context_outer_ring>, const context_extents& x,
                                     std::int64_t e, std::int64_t w) {
  return e * passed_outside(x, 0) + (Backward ? w * passed_outside(x, 1) : 0);
}

}  // namespace detail

/// The line of a transfer, and the bytes that one rank sends in it.
template <class Transfer>
struct context_price;
template <class Move, bool Backward, class E, class Query>
struct context_price<context_transfer<Move, Backward, E, Query>> {
  static constexpr context_line line(const context_extents& extents) {
    return detail::line_of_move(Move{}, extents);
  }
  static constexpr std::int64_t bytes(const context_extents& extents) {
    return detail::context_bytes<Backward>(Move{}, extents, sizeof(E), sizeof(wide<E>));
  }
};

}  // namespace tenon::inline v0
