// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include "tenon/kernel/fuse.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/placement/propagate.hpp"

namespace tenon::inline v0 {

namespace detail {

// to += from, where both are laid out alike; a tensor that others hold too is copied first.
template <class T>
T sum_in_place(T to, const T& from) {
  if (!to.only_holder()) to = to.clone();
  const auto n = to.elements();
  kernel::run(kernel::read{view_of(std::as_const(from).data(), 1, n)} |
              kernel::accumulate{view_of(to.data(), 1, n)});
  return to;
}

// The static checks of adding what a branch gives to something in type `To`.
template <class To, class From>
struct can_be_added {
  static_assert(is_tensor<To> && is_tensor<From>,
                "sum: a term is several tensors; add tensors one by one");
  static_assert(
      std::is_same_v<typename To::dims_type, typename From::dims_type>,
      "sum: the terms have different dims; end the branch with a product that leads back");
  static constexpr bool fits =
      std::is_same_v<sum_placement_t<typename To::dims_type, typename To::placement_type,
                                     typename From::dims_type, typename From::placement_type>,
                     typename To::placement_type>;
  static_assert(fits,
                "sum: the terms are in different states; bring the branch back to the state "
                "of its input");
};

}  // namespace detail

/// y = x + branch(x). What the branch gives must be placed as x is.
template <class Branch>
struct residual {
  template <class In>
  class bound {
    using inner = bound_to<Branch, In>;
    static_assert(std::is_same_v<typename inner::output_type, In>,
                  "residual: the branch does not give back the dims and the states of its input; "
                  "end it with the product or the move that leads back to them");
    static_assert(detail::can_be_added<In, In>::fits,
                  "residual: the input cannot be added to; give one tensor without a maximum that "
                  "is still to be done");

   public:
    using output_type = In;
    using saved_type = typename inner::saved_type;
    using forward_transfers = typename inner::forward_transfers;
    using backward_transfers = typename inner::backward_transfers;

    explicit bound(const layer_context<mesh_of_value<In>>& context) : branch_(context) {}

    std::pair<output_type, saved_type> forward(In x) {
      auto [y, saved] = branch_.forward(x);
      return {detail::sum_in_place(std::move(y), x), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      auto through = branch_.backward(gradient, std::move(saved));
      return detail::sum_in_place(std::move(through), gradient);
    }
    template <class F>
    void for_each_parameter(F&& f) {
      branch_.for_each_parameter(f);
    }

   private:
    inner branch_;
  };
};

/// y = a(x) + b(x) + ...: branches that start together and are added up.
template <class First, class... Rest>
struct sum {
  template <class In>
  class bound {
    using layers = std::tuple<bound_to<First, In>, bound_to<Rest, In>...>;
    static constexpr std::size_t count = 1 + sizeof...(Rest);

   public:
    using output_type = output_of<First, In>;
    static_assert((detail::can_be_added<output_type, output_of<Rest, In>>::fits && ...),
                  "sum: the branches give different states; bring them to one");
    using saved_type = std::tuple<typename bound_to<First, In>::saved_type,
                                  typename bound_to<Rest, In>::saved_type...>;
    using forward_transfers = joined_transfers<typename bound_to<First, In>::forward_transfers,
                                               typename bound_to<Rest, In>::forward_transfers...>;
    using backward_transfers = joined_transfers<typename bound_to<First, In>::backward_transfers,
                                                typename bound_to<Rest, In>::backward_transfers...>;

    explicit bound(const layer_context<mesh_of_value<In>>& context)
        : layers_{bound_to<First, In>(context.child("0")), make<Rest>(context)...} {}

    std::pair<output_type, saved_type> forward(In x) {
      auto [y, first] = std::get<0>(layers_).forward(x);
      saved_type saved;
      std::get<0>(saved) = std::move(first);
      output_type total = std::move(y);
      add_rest<1>(total, x, saved);
      return {std::move(total), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      auto dx = std::get<0>(layers_).backward(gradient, std::move(std::get<0>(saved)));
      add_rest_backward<1>(dx, gradient, saved);
      return dx;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      std::apply([&](auto&... all) { (all.for_each_parameter(f), ...); }, layers_);
    }

   private:
    template <class L>
    static bound_to<L, In> make(const layer_context<mesh_of_value<In>>& context) {
      return bound_to<L, In>(context.child(std::to_string(1 + index_of<L, Rest...>())));
    }
    template <std::size_t I>
    void add_rest(output_type& total, const In& x, saved_type& saved) {
      if constexpr (I < count) {
        auto [y, kept] = std::get<I>(layers_).forward(x);
        std::get<I>(saved) = std::move(kept);
        total = detail::sum_in_place(std::move(total), y);
        add_rest<I + 1>(total, x, saved);
      }
    }
    template <std::size_t I, class G>
    void add_rest_backward(gradient_of_value<In>& dx, const G& gradient, saved_type& saved) {
      if constexpr (I < count) {
        dx = detail::sum_in_place(
            std::move(dx), std::get<I>(layers_).backward(gradient, std::move(std::get<I>(saved))));
        add_rest_backward<I + 1>(dx, gradient, saved);
      }
    }

    layers layers_;
  };
};

}  // namespace tenon::inline v0
