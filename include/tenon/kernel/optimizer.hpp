// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/flat.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/kernel/team/launch.hpp"

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

/// What all tensors of a step have in common, as programs read it from memory: a launch that was
/// recorded can then be run again for the next step.
struct adamw_step_numbers {
  double learning_rate = 1e-3;
  double first_beta = 0.9;
  double second_beta = 0.95;
  double epsilon = 1e-8;
  double first_correction = 1;  ///< 1 / (1 - first_beta^step)
  double second_correction = 1;
  double gradient_scale = 1;

  adamw_step_numbers() = default;
  explicit adamw_step_numbers(const adamw_numbers& n)
      : learning_rate(n.learning_rate),
        first_beta(n.first_beta),
        second_beta(n.second_beta),
        epsilon(n.epsilon),
        first_correction(1 / (1 - std::pow(n.first_beta, static_cast<double>(n.step)))),
        second_correction(1 / (1 - std::pow(n.second_beta, static_cast<double>(n.step)))),
        gradient_scale(n.gradient_scale) {}
};

namespace detail {

/// The step of one element.
template <class S>
struct adamw_rule {
  S b1, b2, rest1, rest2, correction1, correction2, rate, decay, epsilon, factor;

  TENON_BOTH adamw_rule(const adamw_step_numbers& n, double weight_decay)
      : b1(static_cast<S>(n.first_beta)),
        b2(static_cast<S>(n.second_beta)),
        rest1(static_cast<S>(1 - n.first_beta)),
        rest2(static_cast<S>(1 - n.second_beta)),
        correction1(static_cast<S>(n.first_correction)),
        correction2(static_cast<S>(n.second_correction)),
        rate(static_cast<S>(n.learning_rate)),
        decay(static_cast<S>(n.learning_rate * weight_decay)),
        epsilon(static_cast<S>(n.epsilon)),
        factor(static_cast<S>(n.gradient_scale)) {}

  TENON_BOTH void operator()(S& weight, S& first, S& second, S gradient) const {
    const S slope = gradient * factor;
    first = b1 * first + rest1 * slope;
    second = b2 * second + rest2 * slope * slope;
    weight -= rate * (first * correction1 / (square_root(second * correction2) + epsilon)) +
              decay * weight;
  }
};

/// The steps of n elements; `copy`, if there is one, takes the new weights.
template <class Team, class S, element Copy>
TENON_BOTH void run_adamw(Team& team, std::int64_t n, const adamw_rule<S>& rule, S* weights,
                          S* first, S* second, const S* gradient, Copy* copy) {
  // One lane is faster without the copy between its wide numbers, lanes that load once more are
  // not.
  if constexpr (Team::size() > 1) {
    if (copy != nullptr) {
      return team.apply(
          n,
          [rule](S& w, S& m, S& v, S g, wide<Copy>& c) {
            rule(w, m, v, g);
            c = static_cast<wide<Copy>>(w);
          },
          weights, first, second, gradient, only_written<Copy>{copy});
    }
  }
  team.apply(
      n, [rule](S& w, S& m, S& v, S g) { rule(w, m, v, g); }, weights, first, second, gradient);
  if (copy == nullptr) return;
  team.apply(
      n, [](wide<Copy>& c, S w) { c = static_cast<wide<Copy>>(w); }, only_written<Copy>{copy},
      static_cast<const S*>(weights));
}

}  // namespace detail

namespace programs {

/// A block of `adamw`.
template <class S, element Copy>
struct adamw {
  static constexpr std::string_view name = "adamw";
  detail::adamw_rule<S> rule;
  S* weights;
  S* first;
  S* second;
  const S* gradient;
  Copy* copy;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    detail::run_adamw(team, end - begin, rule, weights + begin, first + begin, second + begin,
                      gradient + begin, copy == nullptr ? copy : copy + begin);
  }
};

}  // namespace programs

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
  detail::for_each_block(
      weights.size(), programs::adamw<S, Copy>{{adamw_step_numbers(numbers), numbers.weight_decay},
                                               weights.data(),
                                               first_moment.data(),
                                               second_moment.data(),
                                               gradient.data(),
                                               copy.empty() ? nullptr : copy.data()});
}

/// The same without a copy in another element.
template <class S>
void adamw(std::span<S> weights, std::span<S> first_moment, std::span<S> second_moment,
           std::type_identity_t<std::span<const S>> gradient, const adamw_numbers& numbers) {
  adamw(weights, first_moment, second_moment, gradient, std::span<S>{}, numbers);
}

}  // namespace tenon::inline v0::kernel
