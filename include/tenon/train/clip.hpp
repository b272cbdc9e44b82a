// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tenon/kernel/optimizer.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/prices.hpp"
#include "tenon/tensor/redistribute.hpp"

namespace tenon::inline v0 {

namespace detail {

template <class Mesh, class S>
struct same_on_all_axes;
template <class... Axes, class S>
struct same_on_all_axes<mesh<Axes...>, S> {
  using type = placement<on<Axes, S>...>;
};

template <class E, class D, class P, class First, class... Rest>
auto summed_over(tensor<E, D, P> x, std::string_view name, type_list<First, Rest...>) {
  auto y = redistribute<First, invariant>(std::move(x), name);
  if constexpr (sizeof...(Rest) == 0) {
    return y;
  } else {
    return summed_over(std::move(y), name, type_list<Rest...>{});
  }
}

}  // namespace detail

/// A number that every rank holds a term of, and one that is the same on all.
template <class Mesh>
using scalar_of_terms =
    tensor<fp64, dims<>, typename detail::same_on_all_axes<Mesh, partial>::type>;
template <class Mesh>
using scalar_of_all =
    tensor<fp64, dims<>, typename detail::same_on_all_axes<Mesh, invariant>::type>;

/// Collective: the sum of a number over all ranks of the mesh.
template <class Mesh>
double sum_over_all(ranks<Mesh>& group, double term, std::string_view name) {
  scalar_of_terms<Mesh> terms(group, tenon::shape<dims<>>{});
  if (!terms.values().empty()) terms.values()[0] = term;
  const auto all = detail::summed_over(std::move(terms), name, typename Mesh::axes{});
  return all.values().empty() ? 0 : all.values()[0];
}

/// What `sum_over_all` sends.
template <class... Axes>
void add_prices_of_sum(prices_on<mesh<Axes...>>& prices, std::string_view phase) {
  const auto one = [&]<class A>(A) {
    const int size = prices.grid().template extent<A>();
    if (size == 1) return;
    const auto mine = partition::balanced(1, size).of(prices.grid().template coordinate<A>()).size;
    prices.add(A::name, "all_reduce", phase, 2 * (1 - mine) * std::int64_t{sizeof(fp64)});
  };
  (one(Axes{}), ...);
}

/// Collective: the norm of the whole gradient, sqrt of the sum of all squares, in fp64. Every
/// element counts once: an owned piece on the rank that owns it, an invariant one at coordinate 0.
/// The gradients must be reduced.
template <element Wide, class Mesh>
double gradient_norm(const std::vector<any_parameter<Wide>*>& parameters, ranks<Mesh>& group) {
  double squares = 0;
  for (any_parameter<Wide>* parameter : parameters) {
    if (parameter->counted_here()) squares += kernel::sum_of_squares(parameter->owned_gradient());
  }
  return std::sqrt(sum_over_all(group, squares, "gradient norm"));
}

/// What gradients are multiplied by so that their norm is at most `largest`: exactly largest / norm
/// where the norm is larger, else 1.
inline double clip_scale(double norm, double largest) noexcept {
  return norm > largest ? largest / norm : 1.0;
}

}  // namespace tenon::inline v0
