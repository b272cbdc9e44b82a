// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include "tenon/mesh/mesh.hpp"
#include "tenon/placement/state.hpp"

namespace tenon::inline v0 {

/// The state on one axis: `on<axis::tensor, partial>`.
template <mesh_axis Axis, state State>
struct on {
  using axis = Axis;
  using held = State;
};

namespace detail {

template <class S, class T>
inline constexpr bool cut_same_dim = false;
template <class D>
inline constexpr bool cut_same_dim<sharded<D>, sharded<D>> = true;

template <class S>
std::string state_text() {
  if constexpr (is_sharded<S>) {
    return joined("sharded<", S::dim::name, ">");
  } else if constexpr (is_partial<S>) {
    return std::is_same_v<typename S::operation, reduction::sum>
               ? "partial"
               : joined("partial_of<", S::operation::name, ">");
  } else {
    return std::string(S::name);
  }
}

}  // namespace detail

/// The states of a tensor, one for every axis of its mesh, in the order of the mesh. There is no
/// default state: an axis that is not named belongs to another mesh.
///
///   placement<on<axis::data, sharded<batch>>, on<axis::tensor, partial>>
template <class... Ons>
struct placement {
  static_assert(all_different<typename Ons::axis...>,
                "placement: an axis is named twice; give each axis one state");
  static_assert(detail::no_axis_and_its_part<typename Ons::axis...>,
                "placement: an axis stands beside one of its own parts; name the flat axis alone, "
                "or its two parts");
  static_assert(detail::in_order<typename Ons::axis...>(),
                "placement: the axes are out of order; name them as the mesh does: pipeline, data, "
                "expert, context, tensor");

  using mesh_type = mesh<typename Ons::axis...>;
  template <class A>
  static constexpr bool names = is_one_of<A, typename Ons::axis...>;

  /// "data: sharded<batch>, tensor: partial".
  static std::string text() {
    std::string line;
    ((line += joined(line.empty() ? "" : ", ", Ons::axis::name, ": ",
                     detail::state_text<typename Ons::held>())),
     ...);
    return line;
  }
};

template <class P>
inline constexpr bool is_placement = false;
template <class... Ons>
inline constexpr bool is_placement<placement<Ons...>> = true;

/// A placement that carries the mark of values without gradient: tokens, masks, tables of angles.
template <class P>
struct constant {
  static_assert(is_placement<P>,
                "constant: this marks a placement; write constant<placement<...>>");
  using mesh_type = typename P::mesh_type;
  using states = P;
  static std::string text() { return "constant, " + P::text(); }
};

template <class P>
inline constexpr bool is_constant = false;
template <class P>
inline constexpr bool is_constant<constant<P>> = true;

/// The placement without the mark.
template <class P>
struct states_of {
  using type = P;
};
template <class P>
struct states_of<constant<P>> {
  using type = P;
};
template <class P>
using states_of_t = typename states_of<P>::type;

namespace detail {

template <class A, class P>
struct find_state;
template <class A>
struct find_state<A, placement<>> {
  using type = void;
};
template <class A, class First, class... Rest>
struct find_state<A, placement<First, Rest...>> {
  using type = typename std::conditional_t<std::is_same_v<A, typename First::axis>,
                                           std::type_identity<typename First::held>,
                                           find_state<A, placement<Rest...>>>::type;
};

template <class P, class A, class S>
struct change_state;
template <class... Ons, class A, class S>
struct change_state<placement<Ons...>, A, S> {
  using type =
      placement<std::conditional_t<std::is_same_v<A, typename Ons::axis>, on<A, S>, Ons>...>;
};
template <class P, class A, class S>
struct change_state<constant<P>, A, S> {
  using type = constant<typename change_state<P, A, S>::type>;
};

template <class P>
struct gradients_of {
  static_assert(always_false<P>,
                "gradient: this is no placement of values with a gradient; a constant has none");
  using type = void;
};
template <class... Ons>
struct gradients_of<placement<Ons...>> {
  static_assert((!std::is_void_v<gradient_state<typename Ons::held>> && ...),
                "gradient: a maximum or log_sum_exp over ranks has no gradient; only the sum has");
  using type = placement<on<typename Ons::axis, gradient_state<typename Ons::held>>...>;
};

}  // namespace detail

/// The state of a placement on an axis that it names.
template <class P, mesh_axis A>
struct state_on {
  static_assert(states_of_t<P>::template names<A>,
                "placement: this axis is not named; use an axis of the tensor's mesh");
  using type = typename detail::find_state<A, states_of_t<P>>::type;
};
template <class P, mesh_axis A>
using state_on_t = typename state_on<P, A>::type;

/// The same placement with another state on one axis.
template <class P, mesh_axis A, state S>
using with_state = typename detail::change_state<P, A, S>::type;

/// The placement of the gradient of a tensor that is placed by `P`.
template <class P>
using gradient_placement = typename detail::gradients_of<P>::type;

/// True when some axis holds a sum that is still to be done.
template <class P>
inline constexpr bool any_partial = false;
template <class... Ons>
inline constexpr bool any_partial<placement<Ons...>> = (is_partial<typename Ons::held> || ...);
template <class P>
inline constexpr bool any_partial<constant<P>> = any_partial<P>;

/// True when some axis cuts the dim.
template <class P, class D>
inline constexpr bool any_cut_of = false;
template <class... Ons, class D>
inline constexpr bool any_cut_of<placement<Ons...>, D> = (cuts<typename Ons::held, D> || ...);
template <class P, class D>
inline constexpr bool any_cut_of<constant<P>, D> = any_cut_of<P, D>;

/// True when the dims that a placement cuts are all dims of the tensor.
template <class P, class Dims>
inline constexpr bool cuts_only = false;
template <class... Ons, class Dims>
inline constexpr bool cuts_only<placement<Ons...>, Dims> = ([] {
  if constexpr (is_sharded<typename Ons::held>) {
    return Dims::template has<typename Ons::held::dim>;
  } else {
    return true;
  }
}() && ...);
template <class P, class Dims>
inline constexpr bool cuts_only<constant<P>, Dims> = cuts_only<P, Dims>;

/// An owner placement: every element belongs to one rank of each axis, or to all alike.
template <class P>
inline constexpr bool is_owner_placement = false;
template <class... Ons>
inline constexpr bool is_owner_placement<placement<Ons...>> =
    ((is_sharded<typename Ons::held> || std::is_same_v<typename Ons::held, invariant>)&&...);

/// Calls `f` with a value of each axis of a mesh type.
template <class... Axes, class F>
constexpr void for_each_axis(std::type_identity<mesh<Axes...>>, F&& f) {
  (f(Axes{}), ...);
}

}  // namespace tenon::inline v0
