// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/layer/concept.hpp"
#include "tenon/tensor/redistribute.hpp"

namespace tenon::inline v0 {

/// The dim of the numbers that a function of a cut row needs for each row, side by side: the sum of
/// exponentials and the target's logit of a softmax. Its extent is 2.
struct statistics {
  static constexpr std::string_view name = "statistics";
};

namespace detail {

// The states of something that is there once for each row: `Cut` where the row's dim `D` was cut,
// cut where rows were cut.
template <class P, class Cut, class D>
struct row_placement;
template <class... Ons, class Cut, class D>
struct row_placement<placement<Ons...>, Cut, D> {
  template <class S>
  using held = std::conditional_t<cuts<S, D>, Cut, S>;
  using type = placement<on<typename Ons::axis, held<typename Ons::held>>...>;
};

// Brings a tensor from partial to replicated on every axis where it is partial.
template <class E, class D, class... Ons>
auto reduced_everywhere(tensor<E, D, placement<Ons...>> x, std::string_view name) {
  using P = placement<Ons...>;
  if constexpr (!any_partial<P>) {
    return x;
  } else {
    constexpr bool partial_here[] = {is_partial<typename Ons::held>...};
    constexpr std::size_t first = [&] {
      std::size_t i = 0;
      while (!partial_here[i]) ++i;
      return i;
    }();
    using axis = typename std::tuple_element_t<first, std::tuple<Ons...>>::axis;
    return reduced_everywhere(redistribute<axis, replicated>(std::move(x), name), name);
  }
}

// The transfers of `reduced_everywhere`.
template <class E, class D, class P, class... Axes>
struct reducing_transfers {
  template <class A>
  using one =
      std::conditional_t<is_partial<state_on_t<P, A>>,
                         one_transfer<move<A, state_on_t<P, A>, replicated>, E, D, P>, transfers<>>;
  using type = joined_transfers<one<Axes>...>;
};
template <class E, class D, class P, class Mesh>
struct reducing_over;
template <class E, class D, class P, class... Axes>
struct reducing_over<E, D, P, mesh<Axes...>> : reducing_transfers<E, D, P, Axes...> {};

}  // namespace detail

}  // namespace tenon::inline v0
