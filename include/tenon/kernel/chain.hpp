// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "tenon/base/host_device.hpp"

// Values of different types in a row, as std::tuple has them. That one cannot be copied byte by
// byte, which the arguments of a device's program must be.
namespace tenon::inline v0::kernel::detail {

template <std::size_t I, class T>
struct link {
  T value;
};
template <class Indices, class... Ts>
struct links;
template <std::size_t... Is, class... Ts>
struct links<std::index_sequence<Is...>, Ts...> : link<Is, Ts>... {};

/// Aggregate: `chain<A, B>{{a}, {b}}`.
template <class... Ts>
using chain = links<std::index_sequence_for<Ts...>, Ts...>;

template <std::size_t I, class T>
TENON_BOTH constexpr T& get(link<I, T>& one) noexcept {
  return one.value;
}
template <std::size_t I, class T>
TENON_BOTH constexpr const T& get(const link<I, T>& one) noexcept {
  return one.value;
}

/// f(each value), in order.
template <class F, std::size_t... Is, class... Ts>
TENON_BOTH constexpr void visit(links<std::index_sequence<Is...>, Ts...>& all, const F& f) {
  (f(get<Is>(all)), ...);
}
template <class F, std::size_t... Is, class... Ts>
TENON_BOTH constexpr void visit(const links<std::index_sequence<Is...>, Ts...>& all, const F& f) {
  (f(get<Is>(all)), ...);
}

/// The chain of f(each value).
template <class F, std::size_t... Is, class... Ts>
TENON_BOTH constexpr auto mapped(const links<std::index_sequence<Is...>, Ts...>& all, const F& f) {
  return chain<decltype(f(std::declval<const Ts&>()))...>{{f(get<Is>(all))}...};
}

template <std::size_t... Is, class... Ts, class Next>
constexpr chain<Ts..., Next> appended(const links<std::index_sequence<Is...>, Ts...>& all,
                                      const Next& next) {
  return {{get<Is>(all)}..., {next}};
}

}  // namespace tenon::inline v0::kernel::detail
