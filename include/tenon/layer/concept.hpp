// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/layer/context.hpp"
#include "tenon/placement/propagate.hpp"
#include "tenon/placement/traffic.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

/// The gradient of a value that has none: of tokens.
struct no_gradient {};

namespace detail {

template <class T>
struct find_gradient_of_value {
  using type = typename gradient_tensor<T>::type;
};
template <class E, class D, class P>
struct find_gradient_of_value<tensor<E, D, constant<P>>> {
  using type = no_gradient;
};
template <class... Ts>
struct find_gradient_of_value<std::tuple<Ts...>> {
  using type = std::tuple<typename find_gradient_of_value<Ts>::type...>;
};
template <class T>
struct find_mesh_of_value {
  using type = typename T::mesh_type;
};
template <class T, class... Ts>
struct find_mesh_of_value<std::tuple<T, Ts...>> {
  using type = typename T::mesh_type;
};

}  // namespace detail

/// The type of the gradient of what a layer takes or gives: a tensor, or a tuple of tensors.
template <class T>
using gradient_of_value = typename detail::find_gradient_of_value<T>::type;
template <class T>
using mesh_of_value = typename detail::find_mesh_of_value<T>::type;

/// A layer is a description, and `bound_to<L, In>` is the layer itself, made for inputs of type In:
/// it owns the typed parameters. A description has a member template `bound<In>` with
///
///   using output_type, saved_type;                        what forward gives, what backward needs
///   using forward_transfers, backward_transfers;          the moves that send bytes
///   explicit bound(const layer_context<mesh>&);
///   std::pair<output_type, saved_type> forward(In);
///   gradient_of_value<In> backward(gradient_of_value<output_type>, saved_type);
///   void for_each_parameter(f);
///
/// and says in static_asserts what it refuses, so that `output_of<L, In>` is where a composition
/// that does not fit stops compiling.
template <class L, class In>
using bound_to = typename L::template bound<In>;

template <class L, class In>
using output_of = typename bound_to<L, In>::output_type;
template <class L, class In>
using forward_traffic = traffic_of_t<typename bound_to<L, In>::forward_transfers>;
template <class L, class In>
using backward_traffic = traffic_of_t<typename bound_to<L, In>::backward_transfers>;

/// True for a layer that takes inputs of type In.
template <class L, class In>
concept layer_for = requires(bound_to<L, In>& layer, In x,
                             gradient_of_value<typename bound_to<L, In>::output_type> gradient,
                             typename bound_to<L, In>::saved_type saved) {
  {
    layer.forward(std::move(x))
    } -> std::same_as<
        std::pair<typename bound_to<L, In>::output_type, typename bound_to<L, In>::saved_type>>;
  { layer.backward(std::move(gradient), std::move(saved)) } -> std::same_as<gradient_of_value<In>>;
};

/// A text as a template argument: the name of a part of a model.
template <std::size_t N>
struct part_name {
  char letters[N]{};
  constexpr part_name(const char (&text)[N]) {  // NOLINT: made from a literal
    for (std::size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
  constexpr std::string_view view() const { return {letters, N - 1}; }
};

/// The layer under a name: its parameters are called name.weight, ...
template <part_name Name, class L>
struct named {
  template <class In>
  struct bound : bound_to<L, In> {
    explicit bound(const layer_context<mesh_of_value<In>>& context)
        : bound_to<L, In>(context.child(Name.view())) {}
  };
};

/// A base for layers without parameters.
struct without_parameters {
  template <class F>
  void for_each_parameter(F&&) {}
};

/// A base for layers that send nothing.
struct without_transfers {
  using forward_transfers = transfers<>;
  using backward_transfers = transfers<>;
};

}  // namespace tenon::inline v0
