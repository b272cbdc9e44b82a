// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "tenon/placement/placement.hpp"
#include "tenon/placement/propagate.hpp"

namespace tenon::inline v0 {

/// The dims that an axis cuts: `carry<axis::tensor, heads, kv_heads, ffn, vocabulary>`.
template <mesh_axis Axis, tensor_dim... Ds>
struct carry {};

/// Which axes carry which dims: all that a form of parallelism is.
template <class... Carries>
struct assignment {};

namespace detail {

template <class A, class C>
inline constexpr bool carry_is_on = false;
template <class A, class... Ds>
inline constexpr bool carry_is_on<A, carry<A, Ds...>> = true;

// The first of `Dims` that axis A carries, or void.
template <class A, class Carry, class Dims>
struct carried_by_one {
  using type = void;
};
template <class A, class... Cs, class First, class... Rest>
struct carried_by_one<A, carry<A, Cs...>, dims<First, Rest...>> {
  using type = typename std::conditional_t<is_one_of<First, Cs...>, std::type_identity<First>,
                                           carried_by_one<A, carry<A, Cs...>, dims<Rest...>>>::type;
};
template <class A, class Assignment, class Dims>
struct carried {
  using type = void;
};
template <class A, class First, class... Rest, class Dims>
struct carried<A, assignment<First, Rest...>, Dims> {
  using here = typename carried_by_one<A, First, Dims>::type;
  using type =
      typename std::conditional_t<std::is_void_v<here>, carried<A, assignment<Rest...>, Dims>,
                                  std::type_identity<here>>::type;
};

// The state of a weight [From, To] on axis A beside an input in state S: it follows a cut of From,
// it makes the cut of To that the assignment asks for, else it is whole as the input is.
template <class A, class S, class From, class To, class Assignment>
constexpr auto weight_state() {
  using out_dim = typename carried<A, Assignment, To>::type;
  if constexpr (is_sharded<S>) {
    if constexpr (From::template has<typename S::dim>) {
      return S{};
    } else {
      return replicated{};
    }
  } else if constexpr (!std::is_void_v<out_dim>) {
    return sharded<out_dim>{};
  } else if constexpr (std::is_same_v<S, invariant>) {
    return invariant{};
  } else {
    return replicated{};
  }
}

template <class P, class From, class To, class Assignment>
struct find_weight_placement;
template <class... Ons, class From, class To, class Assignment>
struct find_weight_placement<placement<Ons...>, From, To, Assignment> {
  using type =
      placement<on<typename Ons::axis, decltype(weight_state<typename Ons::axis, typename Ons::held,
                                                             From, To, Assignment>())>...>;
};

}  // namespace detail

/// The dim among `Dims` that the assignment gives to an axis; void when there is none.
template <class Axis, class Assignment, class Dims>
using carried_dim = typename detail::carried<Axis, Assignment, Dims>::type;

/// The placement in which a product uses a weight with the dims `From` (contracted) and `To`,
/// beside an input that is placed by `P`.
template <class P, class From, class To, class Assignment>
using weight_placement = typename detail::find_weight_placement<P, From, To, Assignment>::type;

}  // namespace tenon::inline v0
