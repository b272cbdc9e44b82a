// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "tenon/placement/placement.hpp"

namespace tenon::inline v0 {

namespace detail {

// Why two states on one axis do not go together in a product or a sum.
enum class conflict {
  none,
  invariant_meets_other,  // invariant with replicated, sharded or partial
  two_dims,               // the axis cuts different dims of the operands
  one_side_whole,         // a dim of both operands is cut in only one of them
  two_sums,               // partial x partial, or partial x sharded
  affine,                 // adding something to a sum that is still to be done
};

template <conflict Why, class S = void>
struct outcome {
  static constexpr conflict why = Why;
  using type = S;
};
template <class S>
using fits = outcome<conflict::none, S>;

// A constant's whole value serves where its partner asks for replicated or for invariant.
template <bool IsConstant, class S, class Partner>
using as_asked = std::conditional_t<
    IsConstant && (std::is_same_v<S, replicated> || std::is_same_v<S, invariant>),
    std::conditional_t<std::is_same_v<Partner, invariant>, invariant, replicated>, S>;

// The rule of contraction on one axis: A and B are the operands' dims, Out the product's.
template <class A, class S, class B, class T, class Out>
constexpr auto product_on_axis() {
  if constexpr (std::is_same_v<S, invariant> && std::is_same_v<T, invariant>) {
    return fits<invariant>{};
  } else if constexpr (std::is_same_v<S, invariant> || std::is_same_v<T, invariant>) {
    return outcome<conflict::invariant_meets_other>{};
  } else if constexpr (is_sharded<S> && is_sharded<T>) {
    if constexpr (!std::is_same_v<S, T>) {
      return outcome<conflict::two_dims>{};
    } else if constexpr (Out::template has<typename S::dim>) {
      return fits<S>{};
    } else {
      return fits<partial>{};
    }
  } else if constexpr (is_sharded<S> && std::is_same_v<T, replicated>) {
    if constexpr (B::template has<typename S::dim>) {
      return outcome<conflict::one_side_whole>{};
    } else {
      return fits<S>{};
    }
  } else if constexpr (std::is_same_v<S, replicated> && is_sharded<T>) {
    if constexpr (A::template has<typename T::dim>) {
      return outcome<conflict::one_side_whole>{};
    } else {
      return fits<T>{};
    }
  } else if constexpr (std::is_same_v<S, replicated> && std::is_same_v<T, replicated>) {
    return fits<replicated>{};
  } else if constexpr (std::is_same_v<S, partial> && std::is_same_v<T, replicated>) {
    return fits<partial>{};
  } else if constexpr (std::is_same_v<S, replicated> && std::is_same_v<T, partial>) {
    return fits<partial>{};
  } else {
    return outcome<conflict::two_sums>{};
  }
}

// The rule of sums on one axis; the sum has the dims of A.
template <class A, class S, class B, class T, bool EitherConstant>
constexpr auto sum_on_axis() {
  if constexpr (is_partial<S> || is_partial<T>) {
    if constexpr (std::is_same_v<S, partial> && std::is_same_v<T, partial> && !EitherConstant) {
      return fits<partial>{};
    } else {
      return outcome<conflict::affine>{};
    }
  } else if constexpr (std::is_same_v<S, T>) {
    return fits<S>{};
  } else if constexpr (std::is_same_v<S, invariant> || std::is_same_v<T, invariant>) {
    return outcome<conflict::invariant_meets_other>{};
  } else if constexpr (is_sharded<S> && is_sharded<T>) {
    return outcome<conflict::two_dims>{};
  } else if constexpr (is_sharded<S>) {
    if constexpr (B::template has<typename S::dim>) {
      return outcome<conflict::one_side_whole>{};
    } else {
      return fits<S>{};
    }
  } else {
    return outcome<conflict::one_side_whole>{};
  }
}

// What two constants give is constant.
template <bool Marked, class P>
using constant_if = typename std::conditional_t<Marked, std::type_identity<constant<P>>,
                                                std::type_identity<P>>::type;

template <class P, class Q>
inline constexpr bool same_mesh = std::is_same_v<typename P::mesh_type, typename Q::mesh_type>;

// Every letter of a product is in the result, or in both operands and contracted.
template <class DA, class DB, class DO>
inline constexpr bool no_letter_lost = false;
template <class... As, class... Bs, class DO>
inline constexpr bool no_letter_lost<dims<As...>, dims<Bs...>, DO> =
    ((DO::template has<As> || dims<Bs...>::template has<As>)&&...) &&
    ((DO::template has<Bs> || dims<As...>::template has<Bs>)&&...);

// The conflicts of all axes, so that each kind has a sentence of its own.
template <class... Outcomes>
struct conflicts {
  template <conflict Why>
  static constexpr bool any = ((Outcomes::why == Why) || ...);
  static constexpr bool none_at_all = ((Outcomes::why == conflict::none) && ...);
};

template <class DA, class PA, class DB, class PB, class DO, class Mesh = typename PA::mesh_type>
struct product_outcomes;
template <class DA, class PA, class DB, class PB, class DO, class... Axes>
struct product_outcomes<DA, PA, DB, PB, DO, mesh<Axes...>> {
  template <class X>
  using asked_first = as_asked<is_constant<PA>, state_on_t<PA, X>, state_on_t<PB, X>>;
  template <class X>
  using on_axis =
      decltype(product_on_axis<DA, asked_first<X>, DB,
                               as_asked<is_constant<PB>, state_on_t<PB, X>, asked_first<X>>, DO>());
  using found = conflicts<on_axis<Axes>...>;
  // Not a placement where there are conflicts: the sentences come first.
  template <class X>
  using state_or_replicated = std::conditional_t<std::is_void_v<typename on_axis<X>::type>,
                                                 replicated, typename on_axis<X>::type>;
  using type = constant_if<is_constant<PA> && is_constant<PB>,
                           placement<on<Axes, state_or_replicated<Axes>>...>>;
};

template <class DA, class PA, class DB, class PB, class Mesh = typename PA::mesh_type>
struct sum_outcomes;
template <class DA, class PA, class DB, class PB, class... Axes>
struct sum_outcomes<DA, PA, DB, PB, mesh<Axes...>> {
  static constexpr bool either = is_constant<PA> || is_constant<PB>;
  template <class X>
  using asked_first = as_asked<is_constant<PA>, state_on_t<PA, X>, state_on_t<PB, X>>;
  template <class X>
  using on_axis =
      decltype(sum_on_axis<DA, asked_first<X>, DB,
                           as_asked<is_constant<PB>, state_on_t<PB, X>, asked_first<X>>, either>());
  using found = conflicts<on_axis<Axes>...>;
  template <class X>
  using state_or_replicated = std::conditional_t<std::is_void_v<typename on_axis<X>::type>,
                                                 replicated, typename on_axis<X>::type>;
  using type = constant_if<is_constant<PA> && is_constant<PB>,
                           placement<on<Axes, state_or_replicated<Axes>>...>>;
};

}  // namespace detail

/// The placement of a product of tensors with dims `DA` (placed by `PA`) and `DB` (by `PB`) that
/// has the dims `DO`: the contraction rule. On each axis at most one letter is cut:
///   batch letter (in both and in the product)   all three sharded
///   free letter (in one and in the product)     that one and the product sharded, other replicated
///   contracted letter (in both alone)           both sharded, the product partial
///   none      replicated x replicated, invariant x invariant, partial x replicated -> partial
template <class DA, class PA, class DB, class PB, class DO>
struct product_placement {
  static_assert(detail::same_mesh<PA, PB>,
                "product: the operands name different axes; both must name every axis of one mesh");
  static_assert(cuts_only<PA, DA> && cuts_only<PB, DB>,
                "product: an axis cuts a dim that the operand does not have; cut one of its dims");
  static_assert(dims_among<DO, joined_dims_t<DA, dims_without_t<DB, DA>>>,
                "product: the result has a dim that neither operand has; take one of theirs");
  static_assert(detail::no_letter_lost<DA, DB, DO>,
                "product: a dim of one operand alone is not in the result; only a dim of both is "
                "summed over");
  using outcomes = detail::product_outcomes<DA, PA, DB, PB, DO>;
  static_assert(
      !outcomes::found::template any<detail::conflict::invariant_meets_other>,
      "product: an invariant operand meets one in another state on the same axis; move it "
      "from invariant to replicated first, its backward is the sum over the ranks");
  static_assert(!outcomes::found::template any<detail::conflict::two_dims>,
                "product: one axis cuts two different dims of the operands; cut the same dim in "
                "both, or make one operand replicated");
  static_assert(!outcomes::found::template any<detail::conflict::one_side_whole>,
                "product: a dim of both operands is cut in only one of them; cut it in both");
  static_assert(!outcomes::found::template any<detail::conflict::two_sums>,
                "product: an operand is a sum that is still to be done and the other is not "
                "replicated; reduce it first");
  using type = typename outcomes::type;
};
template <class DA, class PA, class DB, class PB, class DO>
using product_placement_t = typename product_placement<DA, PA, DB, PB, DO>::type;

/// The placement of the sum of a tensor with dims `DA` and one whose dims `DB` are among them: both
/// in the same state; one that lacks the cut dim (a bias) is replicated.
template <class DA, class PA, class DB, class PB>
struct sum_placement {
  static_assert(detail::same_mesh<PA, PB>,
                "sum: the terms name different axes; both must name every axis of one mesh");
  static_assert(cuts_only<PA, DA> && cuts_only<PB, DB>,
                "sum: an axis cuts a dim that the term does not have; cut one of its dims");
  static_assert(
      dims_among<DB, DA>,
      "sum: the second term has a dim that the first has not; its dims must be among them");
  using outcomes = detail::sum_outcomes<DA, PA, DB, PB>;
  static_assert(!outcomes::found::template any<detail::conflict::affine>,
                "sum: one term is a sum that is still to be done, so the other would be added once "
                "by each rank; reduce it first: redistributed<axis, invariant> or "
                "redistributed<axis, sharded<dim>>");
  static_assert(!outcomes::found::template any<detail::conflict::invariant_meets_other>,
                "sum: an invariant term meets one in another state on the same axis; bring both to "
                "one state by a move that you name");
  static_assert(!outcomes::found::template any<detail::conflict::two_dims>,
                "sum: one axis cuts two different dims of the terms; cut both alike");
  static_assert(!outcomes::found::template any<detail::conflict::one_side_whole>,
                "sum: a dim is cut in one term and whole in the other; cut both alike");
  using type = typename outcomes::type;
};
template <class DA, class PA, class DB, class PB>
using sum_placement_t = typename sum_placement<DA, PA, DB, PB>::type;

/// A product of these operands follows the contraction rule.
template <class DA, class PA, class DB, class PB, class DO>
concept can_multiply = detail::same_mesh<PA, PB> && cuts_only<PA, DA> && cuts_only<PB, DB> &&
    dims_among<DO, joined_dims_t<DA, dims_without_t<DB, DA>>> &&
    detail::no_letter_lost<DA, DB, DO> &&
    detail::product_outcomes<DA, PA, DB, PB, DO>::found::none_at_all;

/// These terms may be added.
template <class DA, class PA, class DB, class PB>
concept can_add = detail::same_mesh<PA, PB> && cuts_only<PA, DA> && cuts_only<PB, DB> &&
    dims_among<DB, DA> && detail::sum_outcomes<DA, PA, DB, PB>::found::none_at_all;

/// A function that is not linear may be applied element by element.
template <class P>
concept no_sum_to_be_done = !any_partial<P>;

/// A function that reads a whole dim (a norm, a softmax) may be applied along `D`.
template <class P, class D>
concept whole_along = !any_partial<P> && !any_cut_of<P, D>;

namespace detail {

template <class S, class D>
struct partner_of_state {
  using type = S;
};
template <class Dim, class D>
struct partner_of_state<sharded<Dim>, D> {
  using type = std::conditional_t<D::template has<Dim>, sharded<Dim>, replicated>;
};

}  // namespace detail

/// The state that an operand of a sum or of a norm (a bias, a gain) must have beside a tensor in
/// state `S`, and so the state of the parameter's use: `D` are the operand's own dims.
template <state S, class D>
using partner_state = typename detail::partner_of_state<S, D>::type;

namespace detail {

template <class P, class D>
struct find_partner_placement;
template <class... Ons, class D>
struct find_partner_placement<placement<Ons...>, D> {
  using type = placement<on<typename Ons::axis, partner_state<typename Ons::held, D>>...>;
};

}  // namespace detail

/// The placement of a bias, a gain or a table of positions with dims `D` beside a tensor that is
/// placed by `P`.
template <class P, class D>
using partner_placement = typename detail::find_partner_placement<P, D>::type;

}  // namespace tenon::inline v0
