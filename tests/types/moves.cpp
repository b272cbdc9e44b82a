// SPDX-License-Identifier: Apache-2.0
// The table of moves, its backward, and what is not in it. This file only has to compile.
#include <concepts>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

template <class From, class To, class Forward, class Backward>
constexpr bool row = std::same_as<move<axis::tensor, From, To>, Forward>&&
    std::same_as<backward_move<axis::tensor, From, To>, Backward>;

using all_reduced = all_reduce<axis::tensor>;
using kept_on_one = keep_on_one<axis::tensor>;
template <class D>
using gathered = all_gather<axis::tensor, D>;
template <class D>
using scattered = reduce_scatter<axis::tensor, D>;
template <class D>
using sliced = local_slice<axis::tensor, D>;
template <class D>
using padded = pad_with_zeros<axis::tensor, D>;

// The thirteen rows, forward and backward, for a dim D and another one E.
template <class D, class E>
constexpr bool table() {
  static_assert(row<partial, invariant, all_reduced, nothing>);
  static_assert(row<partial, replicated, all_reduced, all_reduced>);
  static_assert(row<partial, sharded<D>, scattered<D>, gathered<D>>);
  static_assert(row<sharded<D>, replicated, gathered<D>, scattered<D>>);
  static_assert(row<sharded<D>, invariant, gathered<D>, sliced<D>>);
  static_assert(
      row<sharded<D>, sharded<E>, all_to_all<axis::tensor, D, E>, all_to_all<axis::tensor, E, D>>);
  static_assert(row<sharded<D>, partial, padded<D>, sliced<D>>);
  static_assert(row<replicated, sharded<D>, sliced<D>, padded<D>>);
  static_assert(row<replicated, partial, kept_on_one, kept_on_one>);
  static_assert(row<replicated, invariant, nothing, kept_on_one>);
  static_assert(row<invariant, replicated, nothing, all_reduced>);
  static_assert(row<invariant, sharded<D>, sliced<D>, gathered<D>>);
  static_assert(row<invariant, partial, kept_on_one, nothing>);
  return true;
}
static_assert(table<sequence, heads>());
static_assert(table<hidden, rack>());
static_assert(table<rack, batch>());

// Every pair of states with a gradient has a move, and between two different states it is one of
// the table's: the move exists, and so does its backward.
static_assert(for_every_pair<states_with_gradient, states_with_gradient>([]<class S, class T>() {
  return has_move<axis::tensor, S, T> &&
         has_move<axis::tensor, gradient_state<T>, gradient_state<S>>;
}));

// The backward of the backward is the move.
static_assert(for_every_pair<states_with_gradient, states_with_gradient>([]<class S, class T>() {
  return std::same_as<backward_move<axis::tensor, gradient_state<T>, gradient_state<S>>,
                      move<axis::tensor, S, T>>;
}));

// To stay is nothing, forward and backward.
static_assert(for_every<states_with_gradient>([]<class S>() {
  return std::same_as<move<shelf, S, S>, nothing> &&
         std::same_as<backward_move<shelf, S, S>, nothing>;
}));

// Of the moves from and to a maximum or a log_sum_exp only their all-reduce exists.
template <class Op>
constexpr bool only_all_reduced() {
  using value = partial_of<Op>;
  using reduced = all_reduce<axis::tensor, Op>;
  static_assert(std::same_as<move<axis::tensor, value, invariant>, reduced>);
  static_assert(std::same_as<move<axis::tensor, value, replicated>, reduced>);
  static_assert(for_every<all_states>([]<class T>() {
    return has_move<axis::tensor, value, T> ==
           (std::same_as<T, invariant> || std::same_as<T, replicated> || std::same_as<T, value>);
  }));
  static_assert(for_every<all_states>([]<class S>() {
    return std::same_as<S, value> || std::same_as<move<axis::tensor, S, value>, no_move>;
  }));
  return true;
}
static_assert(only_all_reduced<reduction::maximum>());
static_assert(only_all_reduced<reduction::log_sum_exp>());
static_assert(!has_move<axis::tensor, int, invariant> && !has_move<int, partial, invariant>);

// Which moves send bytes.
static_assert(communicates<all_reduced> && communicates<all_reduce<shelf, reduction::maximum>>);
static_assert(communicates<gathered<rack>> && communicates<scattered<rack>>);
static_assert(communicates<all_to_all<shelf, rack, batch>> && communicates<spread<shelf, rack>>);
static_assert(!communicates<sliced<rack>> && !communicates<padded<rack>>);
static_assert(!communicates<kept_on_one> && !communicates<nothing> && !communicates<no_move>);

// Moves on different axes commute: the placement that two of them reach, and each of the moves,
// are the same in either order.
template <class S, class T>
using both = placement<on<axis::data, S>, on<axis::tensor, T>>;
static_assert(for_every_pair<all_states, all_states>([]<class S, class T>() {
  using start = both<partial, partial>;
  using data_first = with_state<start, axis::data, S>;
  using tensor_first = with_state<start, axis::tensor, T>;
  return std::same_as<with_state<data_first, axis::tensor, T>,
                      with_state<tensor_first, axis::data, S>> &&
         std::same_as<state_on_t<data_first, axis::tensor>, state_on_t<start, axis::tensor>> &&
         std::same_as<state_on_t<tensor_first, axis::data>, state_on_t<start, axis::data>>;
}));

// Where two axes cut one dim, the inner one is undone first and made last: so a rank's piece stays
// one run of indices.
using nested = both<sharded<hidden>, sharded<hidden>>;
static_assert(can_redistribute<nested, axis::tensor, replicated>);
static_assert(!can_redistribute<nested, axis::data, replicated>);
static_assert(!can_redistribute<nested, axis::data, sharded<batch>>);
static_assert(!can_redistribute<both<invariant, sharded<hidden>>, axis::data, sharded<hidden>>);
static_assert(can_redistribute<both<sharded<hidden>, invariant>, axis::tensor, sharded<hidden>>);
static_assert(can_redistribute<both<sharded<batch>, sharded<hidden>>, axis::data, replicated>);
static_assert(!can_redistribute<nested, axis::context, replicated>);
static_assert(!can_redistribute<both<partial_of<reduction::maximum>, invariant>, axis::data,
                                sharded<hidden>>);

}  // namespace
