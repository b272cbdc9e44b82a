// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/layer/concept.hpp"
#include "tenon/layer/recomputable.hpp"

namespace tenon::inline v0 {

namespace detail {

// The fold that types a chain: what flows, and the layers bound so far. The types of a step stand
// in a body: in a signature, a step that does not fit would also be reported as a missing operator.
template <class Flow, class... Bounds>
struct chain_so_far {
  using flow = Flow;
  using first_to_last = type_list<Bounds...>;
  using tuple = std::tuple<Bounds...>;
};
template <class L>
struct chain_step {};
template <class Flow, class... Bounds, class L>
constexpr auto operator>>(chain_so_far<Flow, Bounds...>, chain_step<L>) noexcept {
  using bound = bound_to<L, Flow>;
  return chain_so_far<typename bound::output_type, Bounds..., bound>{};
}

template <class In, class... Ls>
using chain_of = decltype((chain_so_far<In>{} >> ... >> chain_step<Ls>{}));

template <class List>
struct chain_traits;
template <class... Bounds>
struct chain_traits<type_list<Bounds...>> {
  using saved = std::tuple<typename Bounds::saved_type...>;
  using forward = joined_transfers<typename Bounds::forward_transfers...>;
  using recomputed = joined_transfers<recomputed_transfers_of<Bounds>...>;
  template <class... Reversed>
  struct backward_of {
    using type = joined_transfers<typename Reversed::backward_transfers...>;
  };
};

template <class Done, class... Rest>
struct reversed;
template <class... Done>
struct reversed<type_list<Done...>> {
  using type = joined_transfers<typename Done::backward_transfers...>;
};
template <class... Done, class First, class... Rest>
struct reversed<type_list<Done...>, First, Rest...> {
  using type = typename reversed<type_list<First, Done...>, Rest...>::type;
};
template <class List>
struct backward_transfers_of;
template <class... Bounds>
struct backward_transfers_of<type_list<Bounds...>> {
  using type = typename reversed<type_list<>, Bounds...>::type;
};

}  // namespace detail

/// Layers one after another: what one gives, the next takes. Backward runs them in reverse.
template <class... Ls>
struct chain {
  template <class In>
  class bound {
    using folded = detail::chain_of<In, Ls...>;
    using traits = detail::chain_traits<typename folded::first_to_last>;
    using all_layers = typename folded::tuple;
    static constexpr std::size_t count = sizeof...(Ls);

   public:
    using output_type = typename folded::flow;
    using saved_type = typename traits::saved;
    using forward_transfers = typename traits::forward;
    using recomputed_transfers = typename traits::recomputed;
    using backward_transfers =
        typename detail::backward_transfers_of<typename folded::first_to_last>::type;

    explicit bound(const layer_context<mesh_of_value<In>>& context)
        : layers_(build(context, std::make_index_sequence<count>())) {}

    std::pair<output_type, saved_type> forward(In x) {
      saved_type saved;
      output_type y = forward_from<0>(std::move(x), saved);
      return {std::move(y), std::move(saved)};
    }

    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      return backward_from<count>(std::move(gradient), saved);
    }

    template <class F>
    void for_each_parameter(F&& f) {
      std::apply([&](auto&... layers) { (layers.for_each_parameter(f), ...); }, layers_);
    }

    template <std::size_t I>
    auto& part() noexcept {
      return std::get<I>(layers_);
    }

   private:
    template <std::size_t... I>
    static all_layers build(const layer_context<mesh_of_value<In>>& context,
                            std::index_sequence<I...>) {
      return all_layers{std::tuple_element_t<I, all_layers>(context)...};
    }

    template <std::size_t I, class X>
    output_type forward_from(X x, saved_type& saved) {
      if constexpr (I == count) {
        return x;
      } else {
        auto [y, kept] = std::get<I>(layers_).forward(std::move(x));
        std::get<I>(saved) = std::move(kept);
        return forward_from<I + 1>(std::move(y), saved);
      }
    }

    template <std::size_t I, class G>
    gradient_of_value<In> backward_from(G gradient, saved_type& saved) {
      if constexpr (I == 0) {
        return gradient;
      } else {
        auto kept = std::move(std::get<I - 1>(saved));
        return backward_from<I - 1>(
            std::get<I - 1>(layers_).backward(std::move(gradient), std::move(kept)), saved);
      }
    }

    all_layers layers_;
  };
};

/// The same layer `Count` times, each with parameters of its own, named 0, 1, ...
template <std::size_t Count, class L>
struct repeat {
  template <class In>
  class bound {
    static_assert(std::is_same_v<output_of<L, In>, In>,
                  "repeat: the layer does not give what it takes; end it with the move that leads "
                  "back to the state of its input");
    using one = bound_to<L, In>;

   public:
    using output_type = In;
    using saved_type = std::vector<typename one::saved_type>;
    using forward_transfers = decltype([]<std::size_t... I>(std::index_sequence<I...>) {
      return joined_transfers<
          std::conditional_t<(I < Count), typename one::forward_transfers, void>...>{};
    }(std::make_index_sequence<Count>()));
    using backward_transfers = decltype([]<std::size_t... I>(std::index_sequence<I...>) {
      return joined_transfers<
          std::conditional_t<(I < Count), typename one::backward_transfers, void>...>{};
    }(std::make_index_sequence<Count>()));

    explicit bound(const layer_context<mesh_of_value<In>>& context) {
      layers_.reserve(Count);
      for (std::size_t i = 0; i < Count; ++i)
        layers_.emplace_back(context.child(std::to_string(i)));
    }

    std::pair<output_type, saved_type> forward(In x) {
      saved_type saved;
      for (auto& layer : layers_) {
        auto [y, kept] = layer.forward(std::move(x));
        x = std::move(y);
        saved.push_back(std::move(kept));
      }
      return {std::move(x), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      for (std::size_t i = Count; i-- > 0;) {
        gradient = layers_[i].backward(std::move(gradient), std::move(saved[i]));
        saved.pop_back();
      }
      return gradient;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      for (auto& layer : layers_) layer.for_each_parameter(f);
    }

   private:
    std::vector<one> layers_;
  };
};

}  // namespace tenon::inline v0
