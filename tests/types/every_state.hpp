// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <type_traits>

#include "tenon/placement.hpp"

// What the tests of the algebra run over: every state, with the library's dims and a user's own.
namespace types {

/// A dim and an axis that the library does not know.
struct rack {
  static constexpr std::string_view name = "rack";
};
struct shelf {
  static constexpr std::string_view name = "shelf";
  static constexpr int order = 35;
};

using tenon::type_list;

using states_with_gradient =
    type_list<tenon::partial, tenon::replicated, tenon::invariant, tenon::sharded<tenon::batch>,
              tenon::sharded<tenon::hidden>, tenon::sharded<rack>>;
using states_without_gradient = type_list<tenon::partial_of<tenon::reduction::maximum>,
                                          tenon::partial_of<tenon::reduction::log_sum_exp>>;
using all_states = tenon::concatenated_t<states_with_gradient, states_without_gradient>;

/// True when `law.operator()<S>()` holds for every S of the list.
template <class List, class Law>
constexpr bool for_every(Law law) {
  return [&]<class... Ss>(std::type_identity<type_list<Ss...>>) {
    return (law.template operator()<Ss>() && ...);
  }(std::type_identity<List>{});
}

/// True when `law.operator()<S, T>()` holds for every pair.
template <class First, class Second, class Law>
constexpr bool for_every_pair(Law law) {
  return for_every<First>([&]<class S>() {
    return for_every<Second>([&]<class T>() { return law.template operator()<S, T>(); });
  });
}

}  // namespace types
