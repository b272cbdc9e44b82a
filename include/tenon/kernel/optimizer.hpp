// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0::kernel {

/// The numbers of one AdamW step; `step` counts from 1.
struct adamw_numbers {
  double learning_rate = 1e-3;
  double first_beta = 0.9;
  double second_beta = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies the gradient: clipping
  std::int64_t step = 1;
};

namespace detail {

/// Elements that one program of a flat kernel takes. Sums are made of one part for each such block:
/// their order depends on the length alone.
inline constexpr std::int64_t flat_block = 4096;

template <class A, class B>
void require_same_length(const char* kernel, const A& a, const B& b) {
  require(a.size() == b.size() || shapes_only::active(), kernel, ": ",
          static_cast<std::int64_t>(a.size()), " and ", static_cast<std::int64_t>(b.size()),
          " elements were given; give as many");
}

}  // namespace detail

/// One AdamW step on weights (the wide master copy), gradients and the two moments, all [n], in one
/// pass: g = gradient * gradient_scale; first = b1 first + (1-b1) g; second = b2 second + (1-b2)
/// g^2; weight -= rate (first' / (sqrt(second') + epsilon) + decay weight), where ' divides by
/// 1 - b^step. `copy`, [n] or empty, receives the new weights in the model's element.
/// Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2019.
template <class S, element Copy>
void adamw(std::span<S> weights, std::span<S> first_moment, std::span<S> second_moment,
           std::type_identity_t<std::span<const S>> gradient, std::span<Copy> copy,
           const adamw_numbers& numbers) {
  static_assert(std::same_as<S, fp64> || std::same_as<S, fp32>,
                "adamw: master weights and moments must be wide; use fp32 or fp64");
  detail::require_same_length("adamw", weights, gradient);
  detail::require_same_length("adamw", weights, first_moment);
  detail::require_same_length("adamw", weights, second_moment);
  if (!copy.empty()) detail::require_same_length("adamw", weights, copy);
  require(numbers.step >= 1, "adamw: step ", numbers.step, " was given; count from 1");
  const auto power = static_cast<double>(numbers.step);
  const auto b1 = static_cast<S>(numbers.first_beta);
  const auto b2 = static_cast<S>(numbers.second_beta);
  const auto rest1 = static_cast<S>(1 - numbers.first_beta);
  const auto rest2 = static_cast<S>(1 - numbers.second_beta);
  const auto correction1 = static_cast<S>(1 / (1 - std::pow(numbers.first_beta, power)));
  const auto correction2 = static_cast<S>(1 / (1 - std::pow(numbers.second_beta, power)));
  const auto rate = static_cast<S>(numbers.learning_rate);
  const auto decay = static_cast<S>(numbers.learning_rate * numbers.weight_decay);
  const auto epsilon = static_cast<S>(numbers.epsilon);
  const auto factor = static_cast<S>(numbers.gradient_scale);
  for_each_range(
      static_cast<std::int64_t>(weights.size()), detail::flat_block,
      {.elements_each = detail::flat_block},
      [&](host_team& team, std::int64_t begin, std::int64_t end) {
        S* w = weights.data() + begin;
        S* m = first_moment.data() + begin;
        S* v = second_moment.data() + begin;
        const S* g = gradient.data() + begin;
        team.for_each(end - begin, [=](std::int64_t i) {
          const S slope = g[i] * factor;
          const S mean = b1 * m[i] + rest1 * slope;
          const S square = b2 * v[i] + rest2 * slope * slope;
          m[i] = mean;
          v[i] = square;
          w[i] -= rate * (mean * correction1 / (square_root(square * correction2) + epsilon)) +
                  decay * w[i];
        });
        if (!copy.empty()) {
          Copy* c = copy.data() + begin;
          team.for_each(end - begin,
                        [=](std::int64_t i) { c[i] = Copy(static_cast<wide<Copy>>(w[i])); });
        }
      });
}

/// The same without a copy in another element.
template <class S>
void adamw(std::span<S> weights, std::span<S> first_moment, std::span<S> second_moment,
           std::type_identity_t<std::span<const S>> gradient, const adamw_numbers& numbers) {
  adamw(weights, first_moment, second_moment, gradient, std::span<S>{}, numbers);
}

/// The sum of the squares, accumulated in fp64; its order depends on the length alone.
template <class T>
double sum_of_squares(std::span<T> values) {
  static_assert(element<std::remove_const_t<T>>,
                "sum_of_squares: no floating-point element; give fp64, fp32 or bf16");
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t blocks = (n + detail::flat_block - 1) / detail::flat_block;
  buffer<double> parts = buffer<double>::zeros(blocks);
  for_each_range(n, detail::flat_block, {.elements_each = detail::flat_block},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   const T* from = values.data() + begin;
                   parts[begin / detail::flat_block] =
                       team.template sum<double>(end - begin, [=](std::int64_t i) {
                         const auto value = static_cast<double>(widen(from[i]));
                         return value * value;
                       });
                 });
  double total = 0;
  for (const double part : parts.span()) total += part;
  return total;
}

/// values *= factor
template <element T>
void scale_by(std::span<T> values, double factor) {
  for_each_range(static_cast<std::int64_t>(values.size()), detail::flat_block,
                 {.elements_each = detail::flat_block},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   T* to = values.data() + begin;
                   const auto by = static_cast<wide<T>>(factor);
                   team.for_each(end - begin,
                                 [=](std::int64_t i) { to[i] = T(widen(to[i]) * by); });
                 });
}

/// to += factor * from
template <element T, class From>
void add_scaled(std::span<T> to, double factor, std::span<From> from) {
  static_assert(element<std::remove_const_t<From>>,
                "add_scaled: no floating-point element; give fp64, fp32 or bf16");
  detail::require_same_length("add_scaled", to, from);
  for_each_range(static_cast<std::int64_t>(to.size()), detail::flat_block,
                 {.elements_each = detail::flat_block},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   T* target = to.data() + begin;
                   const From* values = from.data() + begin;
                   const auto by = static_cast<wide<T>>(factor);
                   team.for_each(end - begin, [=](std::int64_t i) {
                     target[i] = T(widen(target[i]) + by * static_cast<wide<T>>(widen(values[i])));
                   });
                 });
}

/// to = from, converted where the elements differ.
template <element T, class From>
void convert(std::span<T> to, std::span<From> from) {
  static_assert(element<std::remove_const_t<From>>,
                "convert: no floating-point element; give fp64, fp32 or bf16");
  detail::require_same_length("convert", to, from);
  for_each_range(static_cast<std::int64_t>(to.size()), detail::flat_block,
                 {.elements_each = detail::flat_block},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   T* target = to.data() + begin;
                   const From* values = from.data() + begin;
                   team.for_each(end - begin, [=](std::int64_t i) {
                     target[i] = T(static_cast<wide<T>>(widen(values[i])));
                   });
                 });
}

/// Whether no value is infinite or NaN.
template <class T>
bool all_finite(std::span<T> values) {
  static_assert(element<std::remove_const_t<T>>,
                "all_finite: no floating-point element; give fp64, fp32 or bf16");
  using sum_type = wide<std::remove_const_t<T>>;
  const auto n = static_cast<std::int64_t>(values.size());
  std::atomic<bool> finite{true};
  for_each_range(n, detail::flat_block, {.elements_each = detail::flat_block},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   const T* from = values.data() + begin;
                   // 0 * value is 0 for a number, and NaN for what is none.
                   const auto sum = team.template sum<sum_type>(
                       end - begin, [=](std::int64_t i) { return widen(from[i]) * sum_type{0}; });
                   if (!(sum == sum_type{0})) finite.store(false, std::memory_order_relaxed);
                 });
  return finite.load();
}

}  // namespace tenon::inline v0::kernel
