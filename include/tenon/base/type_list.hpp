// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

namespace tenon::inline v0 {

/// A list of types, used as a value of the compiler's: axes, dims, moves.
template <class... Ts>
struct type_list {
  static constexpr std::size_t size = sizeof...(Ts);
};

/// How many of `Ts` are `T`.
template <class T, class... Ts>
inline constexpr std::size_t count_of = (std::size_t{0} + ... + std::size_t{std::is_same_v<T, Ts>});

/// True when `T` is one of `Ts`.
template <class T, class... Ts>
inline constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);

/// True when no type stands twice in `Ts`.
template <class... Ts>
inline constexpr bool all_different = ((count_of<Ts, Ts...> == 1) && ...);

/// The position of `T` in `Ts`, or sizeof...(Ts) when it is not there.
template <class T, class... Ts>
constexpr std::size_t index_of() {
  constexpr bool same[] = {std::is_same_v<T, Ts>..., true};
  std::size_t i = 0;
  while (!same[i]) ++i;
  return i;
}

/// The list of all elements of the lists given, in order.
template <class... Lists>
struct concatenated {
  using type = type_list<>;
};
template <class... Ts>
struct concatenated<type_list<Ts...>> {
  using type = type_list<Ts...>;
};
template <class... As, class... Bs, class... Rest>
struct concatenated<type_list<As...>, type_list<Bs...>, Rest...> {
  using type = typename concatenated<type_list<As..., Bs...>, Rest...>::type;
};
template <class... Lists>
using concatenated_t = typename concatenated<Lists...>::type;

/// A dependent false, for a static_assert that must wait for an instantiation.
template <class...>
inline constexpr bool always_false = false;

}  // namespace tenon::inline v0
