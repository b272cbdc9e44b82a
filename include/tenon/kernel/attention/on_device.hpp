// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/attention/team_backward.hpp"
#include "tenon/kernel/attention/team_forward.hpp"
#include "tenon/kernel/team/device_entry.hpp"
#include "tenon/memory/buffer.hpp"

// Attention where the rank computes on a device: which program, by the width of the heads.
namespace tenon::inline v0::kernel {

namespace detail {

/// The widest head of a program for elements of T: registers hold a row of fp64 only half as wide.
template <element T>
inline constexpr std::int64_t widest_head = sizeof(T) == 8 ? 64 : 128;

/// f(std::integral_constant<int, Width>) with the least Width that holds the heads.
template <element T, class F>
void with_head_width(std::int64_t width, F&& f) {
  require(width <= widest_head<T>, "attention: heads of width ", width,
          " were asked for on a device, where they are at most ", widest_head<T>, " in ",
          name_of(kind_of<T>), "; use more heads, or compute on the host: --device host");
  if (width <= 64) return f(std::integral_constant<int, 64>{});
  if constexpr (widest_head < T >> 64) f(std::integral_constant<int, 128>{});
}

template <element T, element Out>
void attention_on_device(matrix_view<Out> o, std::span<wide<T>> log_sum_exp, matrix_view<const T> q,
                         matrix_view<const T> k, matrix_view<const T> v,
                         const attention_shape& shape, output how) {
  with_head_width<T>(shape.width, [&](auto width) {
    using program = programs::attention_forward<T, Out, width>;
    const program each{o,  log_sum_exp.data(), q, k, v, shape, kv_heads_table::of(shape.kv_of_head),
                       how};
    for_each_device_team(shape.batch * shape.heads * program::tiles(shape),
                         {.scratch_bytes = program::scratch_bytes()}, each);
  });
}

template <element T, element Out>
void attention_backward_on_device(matrix_view<Out> dq, matrix_view<Out> dk, matrix_view<Out> dv,
                                  matrix_view<const T> o_gradient, matrix_view<const T> q,
                                  matrix_view<const T> k, matrix_view<const T> v,
                                  matrix_view<const T> o, std::span<const wide<T>> log_sum_exp,
                                  const attention_shape& shape, output q_how) {
  const auto table = kv_heads_table::of(shape.kv_of_head);
  buffer<wide<T>> inner(shape.batch * shape.heads * shape.q_length);
  for_each_device_team(shape.batch * shape.q_length, {},
                       programs::attention_inner<T>{inner.data(), o, o_gradient, shape.heads,
                                                    shape.q_length, shape.width});
  with_head_width<T>(shape.width, [&](auto width) {
    using queries = programs::attention_backward_queries<T, Out, width>;
    using keys = programs::attention_backward_keys<T, Out, width>;
    const std::int64_t q_tiles =
        row_tiles(shape.q_positions, shape.q_length, queries::sizes::rows).count();
    for_each_device_team(
        shape.batch * shape.heads * q_tiles, {.scratch_bytes = queries::scratch_bytes()},
        queries{dq, o_gradient, q, k, v, log_sum_exp.data(), inner.data(), shape, table, q_how});
    for_each_device_team(
        shape.batch * shape.kv_heads * keys::tiles(shape), {.scratch_bytes = keys::scratch_bytes()},
        keys{dk, dv, o_gradient, q, k, v, log_sum_exp.data(), inner.data(), shape, table});
  });
}

}  // namespace detail

/// What a unit enters for attention on a device with elements of T, by results (T, or wide for a
/// ring of contexts) and width (64; 128 but for fp64).
template <element T, element Out, int Width>
using attention_programs = type_list<programs::attention_forward<T, Out, Width>,
                                     programs::attention_backward_queries<T, Out, Width>,
                                     programs::attention_backward_keys<T, Out, Width>>;
template <element T>
using attention_inner_programs = type_list<programs::attention_inner<T>>;

}  // namespace tenon::inline v0::kernel
