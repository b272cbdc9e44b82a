// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <type_traits>

#include "tenon/layer/concept.hpp"

namespace tenon::inline v0 {

namespace detail {

// Whether keys and values placed by K fit queries placed by Q: on each axis both cut their heads,
// or both are in one state.
template <class Q, class K, class Mesh = typename Q::mesh_type>
inline constexpr bool heads_match = false;
template <class Q, class K, class... Axes>
inline constexpr bool heads_match<Q, K, mesh<Axes...>> =
    ((cuts<state_on_t<Q, Axes>, heads>
          ? cuts<state_on_t<K, Axes>, kv_heads>
          : std::is_same_v<state_on_t<Q, Axes>, state_on_t<K, Axes>>)&&...);

// True when an axis other than that of contexts cuts the sequence.
template <class P>
inline constexpr bool sequence_cut_elsewhere = false;
template <class... Ons>
inline constexpr bool sequence_cut_elsewhere<placement<Ons...>> =
    ((cuts<typename Ons::held, sequence> && !std::is_same_v<typename Ons::axis, axis::context>) ||
     ...);

template <class In>
struct attention_input {
  static_assert(!is_tensor<In> && std::tuple_size_v<In> == 3,
                "attention: the input is not the three tensors query, key and value");
  using query_type = std::tuple_element_t<0, In>;
  using key_type = std::tuple_element_t<1, In>;
  static_assert(std::is_same_v<key_type, std::tuple_element_t<2, In>>,
                "attention: key and value are of different types; place both alike");
  using Q = typename query_type::placement_type;
  using K = typename key_type::placement_type;
  static_assert(
      std::is_same_v<typename query_type::dims_type, dims<batch, sequence, heads, head_width>> &&
          std::is_same_v<typename key_type::dims_type, dims<batch, sequence, kv_heads, head_width>>,
      "attention: the dims are not batch, sequence, heads (kv_heads), head_width");
  static_assert(
      !any_partial<Q> && !any_partial<K>,
      "attention: a function that is not linear was given a sum that is still to be done; "
      "reduce it first");
  static_assert(!sequence_cut_elsewhere<Q> && !sequence_cut_elsewhere<K>,
                "attention: the sequence is cut by an axis, and attention reads all keys; exchange "
                "it first: redistributed<axis, replicated>");
  static_assert(!any_cut_of<Q, head_width> && !any_cut_of<K, head_width>,
                "attention: the width of the heads is cut, and a score reads all of it; cut the "
                "heads");
  static_assert(heads_match<Q, K>,
                "attention: query and key are placed differently; cut heads and kv_heads on the "
                "same axis and the rest alike");
};

}  // namespace detail

}  // namespace tenon::inline v0
