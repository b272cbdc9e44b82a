// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "tenon/base/type_list.hpp"

namespace tenon::inline v0 {

/// The axes of a mesh. `order` runs from slow to fast links; ranks are numbered in it, the last
/// axis fastest. An axis of a user's own is any struct with a name and an order.
namespace axis {

struct pipeline {
  static constexpr std::string_view name = "pipeline";
  static constexpr int order = 0;
};
struct data {
  static constexpr std::string_view name = "data";
  static constexpr int order = 10;
};
struct data_replicate {
  static constexpr std::string_view name = "data_replicate";
  static constexpr int order = 10;
};
struct data_shard {
  static constexpr std::string_view name = "data_shard";
  static constexpr int order = 11;
};
struct expert {
  static constexpr std::string_view name = "expert";
  static constexpr int order = 20;
};
struct context {
  static constexpr std::string_view name = "context";
  static constexpr int order = 30;
};
struct context_ring {
  static constexpr std::string_view name = "context_ring";
  static constexpr int order = 30;
};
struct context_heads {
  static constexpr std::string_view name = "context_heads";
  static constexpr int order = 31;
};
struct tensor {
  static constexpr std::string_view name = "tensor";
  static constexpr int order = 40;
};
struct tensor_row {
  static constexpr std::string_view name = "tensor_row";
  static constexpr int order = 40;
};
struct tensor_column {
  static constexpr std::string_view name = "tensor_column";
  static constexpr int order = 41;
};

}  // namespace axis

/// A type that may name an axis.
template <class A>
concept mesh_axis = requires {
  { A::name } -> std::convertible_to<std::string_view>;
  { A::order } -> std::convertible_to<int>;
};

/// The two axes that a flat axis may be split into, outer first; an axis that has none is its own.
template <mesh_axis A>
struct sub_axes {
  using type = type_list<A>;
};
template <>
struct sub_axes<axis::data> {
  using type = type_list<axis::data_replicate, axis::data_shard>;
};
template <>
struct sub_axes<axis::context> {
  using type = type_list<axis::context_ring, axis::context_heads>;
};
template <>
struct sub_axes<axis::tensor> {
  using type = type_list<axis::tensor_row, axis::tensor_column>;
};
template <mesh_axis A>
using sub_axes_t = typename sub_axes<A>::type;

/// True when `Part` is `Whole` or one of the axes that `Whole` is split into.
template <mesh_axis Part, mesh_axis Whole>
inline constexpr bool is_part_of = std::is_same_v<Part, Whole> || []<class... S>(type_list<S...>) {
  return is_one_of<Part, S...>;
}(sub_axes_t<Whole>{});

namespace detail {

// A flat axis and a part of it name the same ranks twice.
template <class... Axes>
inline constexpr bool no_axis_and_its_part = true;
template <class First, class... Rest>
inline constexpr bool no_axis_and_its_part<First, Rest...> =
    ((std::is_same_v<First, Rest> || !(is_part_of<First, Rest> || is_part_of<Rest, First>)) &&
     ...) &&
    no_axis_and_its_part<Rest...>;

}  // namespace detail

}  // namespace tenon::inline v0
