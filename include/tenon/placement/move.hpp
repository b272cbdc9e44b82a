// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include "tenon/placement/placement.hpp"

namespace tenon::inline v0 {

// What a change of state on one axis does. The first four, and spread, send bytes; the others are
// local.
template <mesh_axis Axis, class Op = reduction::sum>
struct all_reduce {};
template <mesh_axis Axis, tensor_dim Dim>
struct all_gather {};
template <mesh_axis Axis, tensor_dim Dim>
struct reduce_scatter {};
template <mesh_axis Axis, tensor_dim From, tensor_dim To>
struct all_to_all {};
/// From the owners' pieces of `Dim` to the regions that each rank uses, which may overlap.
template <mesh_axis Axis, tensor_dim Dim>
struct spread {};
template <mesh_axis Axis, tensor_dim Dim>
struct local_slice {};
template <mesh_axis Axis, tensor_dim Dim>
struct pad_with_zeros {};
template <mesh_axis Axis>
struct keep_on_one {};
struct nothing {};
/// The same as a gather or a scatter along an axis, but one rank's piece after the other, each used
/// before the next one comes: the whole is nowhere. A piece goes by broadcast, or is summed on its
/// owner.
template <class Move>
struct in_pieces {};

/// No move leads from one state to the other.
struct no_move {};

namespace detail {

template <class A, class From, class To>
struct move_between {
  using type = no_move;
};
template <class A, class S>
struct move_between<A, S, S> {
  using type = nothing;
};
template <class A, class Op>
struct move_between<A, partial_of<Op>, invariant> {
  using type = all_reduce<A, Op>;
};
template <class A, class Op>
struct move_between<A, partial_of<Op>, replicated> {
  using type = all_reduce<A, Op>;
};
template <class A, class D>
struct move_between<A, partial, sharded<D>> {
  using type = reduce_scatter<A, D>;
};
template <class A, class D>
struct move_between<A, sharded<D>, replicated> {
  using type = all_gather<A, D>;
};
template <class A, class D>
struct move_between<A, sharded<D>, invariant> {
  using type = all_gather<A, D>;
};
template <class A, class D, class E>
requires(!std::same_as<D, E>) struct move_between<A, sharded<D>, sharded<E>> {
  using type = all_to_all<A, D, E>;
};
template <class A, class D>
struct move_between<A, sharded<D>, partial> {
  using type = pad_with_zeros<A, D>;
};
template <class A, class D>
struct move_between<A, replicated, sharded<D>> {
  using type = local_slice<A, D>;
};
template <class A>
struct move_between<A, replicated, partial> {
  using type = keep_on_one<A>;
};
template <class A>
struct move_between<A, replicated, invariant> {
  using type = nothing;
};
template <class A>
struct move_between<A, invariant, replicated> {
  using type = nothing;
};
template <class A, class D>
struct move_between<A, invariant, sharded<D>> {
  using type = local_slice<A, D>;
};
template <class A>
struct move_between<A, invariant, partial> {
  using type = keep_on_one<A>;
};

}  // namespace detail

/// What brings a tensor on `Axis` from one state to the other: the table of moves.
///
///   | from       | to         | forward          | backward         |
///   | partial    | invariant  | all_reduce       | nothing          |
///   | partial    | replicated | all_reduce       | all_reduce       |
///   | partial    | sharded    | reduce_scatter   | all_gather       |
///   | sharded    | replicated | all_gather       | reduce_scatter   |
///   | sharded    | invariant  | all_gather       | local_slice      |
///   | sharded a  | sharded b  | all_to_all       | all_to_all       |
///   | sharded    | partial    | pad_with_zeros   | local_slice      |
///   | replicated | sharded    | local_slice      | pad_with_zeros   |
///   | replicated | partial    | keep_on_one      | keep_on_one      |
///   | replicated | invariant  | nothing          | keep_on_one      |
///   | invariant  | replicated | nothing          | all_reduce       |
///   | invariant  | sharded    | local_slice      | all_gather       |
///   | invariant  | partial    | keep_on_one      | nothing          |
template <mesh_axis Axis, state From, state To>
using move = typename detail::move_between<Axis, From, To>::type;

/// The move of the gradients: backward(from -> to) = gradient(to) -> gradient(from).
template <mesh_axis Axis, state From, state To>
using backward_move = move<Axis, gradient_state<To>, gradient_state<From>>;

template <class Axis, class From, class To>
concept has_move = mesh_axis<Axis> && state<From> && state<To> &&
    !std::same_as<typename detail::move_between<Axis, From, To>::type, no_move>;

/// True for a move that sends bytes when the axis has more than one rank.
template <class Move>
inline constexpr bool communicates = false;
template <class A, class Op>
inline constexpr bool communicates<all_reduce<A, Op>> = true;
template <class A, class D>
inline constexpr bool communicates<all_gather<A, D>> = true;
template <class A, class D>
inline constexpr bool communicates<reduce_scatter<A, D>> = true;
template <class A, class D, class E>
inline constexpr bool communicates<all_to_all<A, D, E>> = true;
template <class A, class D>
inline constexpr bool communicates<spread<A, D>> = true;
template <class Move>
inline constexpr bool communicates<in_pieces<Move>> = communicates<Move>;

namespace detail {

// Two axes may cut one dim, the one named first outermost. The region of a rank stays one run of
// indices only while the cut of the inner axis is undone before, and made after, the outer one's.
template <class P, class A, class D>
struct is_innermost_cut;
template <class... Ons, class A, class D>
struct is_innermost_cut<placement<Ons...>, A, D> {
  static constexpr bool value =
      ((Ons::axis::order <= A::order || !cuts<typename Ons::held, D>)&&...);
};

template <class P, class A, class S>
inline constexpr bool moves_innermost = true;
template <class P, class A, class D>
inline constexpr bool moves_innermost<P, A, sharded<D>> = is_innermost_cut<P, A, D>::value;

}  // namespace detail

/// A placement may be brought to state `To` on `Axis` by one move.
template <class P, class Axis, class To>
concept can_redistribute =
    states_of_t<P>::template names<Axis>&& has_move<Axis, state_on_t<P, Axis>, To>&&
        detail::moves_innermost<states_of_t<P>, Axis, state_on_t<P, Axis>>&&
            detail::moves_innermost<states_of_t<P>, Axis, To>;

}  // namespace tenon::inline v0
