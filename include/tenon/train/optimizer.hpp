// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/kernel/optimizer.hpp"
#include "tenon/layer/parameter.hpp"

namespace tenon::inline v0 {

/// The numbers of AdamW that do not change during a run.
struct adamw_settings {
  double first_beta = 0.9;
  double second_beta = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  ///< for matrices; biases and gains do not decay
};

/// The two moments of a parameter, in its owner placement.
template <element Wide, class Dims, class Own>
struct adamw_moments {
  tensor<Wide, Dims, Own> first;
  tensor<Wide, Dims, Own> second;

  explicit adamw_moments(const tensor<Wide, Dims, Own>& weights)
      : first(tensor<Wide, Dims, Own>::zeros(weights.group(), weights.where())),
        second(tensor<Wide, Dims, Own>::zeros(weights.group(), weights.where())) {}
};

namespace detail {

inline kernel::adamw_numbers adamw_numbers_of(const adamw_settings& settings, parameter_role role,
                                              double rate, double gradient_scale,
                                              std::int64_t step) {
  return {.learning_rate = rate,
          .first_beta = settings.first_beta,
          .second_beta = settings.second_beta,
          .epsilon = settings.epsilon,
          .weight_decay = role == parameter_role::matrix ? settings.weight_decay : 0,
          .gradient_scale = gradient_scale,
          .step = step};
}

}  // namespace detail

/// One AdamW step of one tensor of weights. The gradient must be in the owner placement of the
/// moments: one that is partial on any axis lacks a sum over ranks, and does not compile.
/// `step` counts from 1; the gradient is multiplied by `gradient_scale` (clipping) on the way.
/// Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2019.
template <element Wide, class Dims, class Own, class Gradient>
void adamw_step(tensor<Wide, Dims, Own>& weights, const tensor<Wide, Dims, Gradient>& gradient,
                adamw_moments<Wide, Dims, Own>& moments, const adamw_settings& settings,
                parameter_role role, double rate, std::int64_t step, double gradient_scale = 1) {
  static_assert(
      !any_partial<Gradient>,
      "adamw: the gradient is a sum over ranks that is still to be done; reduce it first: "
      "redistribute<axis, invariant>(gradient)");
  static_assert(is_owner_placement<Own>,
                "adamw: the weights are not in an owner placement; every axis must be sharded or "
                "invariant");
  static_assert(any_partial<Gradient> || std::is_same_v<Own, Gradient>,
                "adamw: the gradient is placed otherwise than the moments; bring it to the owner "
                "placement by a move that you name");
  if constexpr (std::is_same_v<Own, Gradient>) {
    require(gradient.where() == weights.where() && moments.first.where() == weights.where(),
            "adamw: weights, gradient and moments are cut at different places; cut them alike");
    kernel::adamw(weights.values(), moments.first.values(), moments.second.values(),
                  gradient.values(),
                  detail::adamw_numbers_of(settings, role, rate, gradient_scale, step));
  }
}

/// AdamW over all parameters of a model: the moments of what this rank owns, stepped in one pass
/// each, the rounded copy that products use written on the way.
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class adamw {
 public:
  /// The parameters must outlive this.
  adamw(std::vector<any_parameter<Wide>*> parameters, adamw_settings settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const any_parameter<Wide>* parameter : parameters_) {
      first_.push_back(buffer<Wide>::zeros(parameter->owned_elements()));
      second_.push_back(buffer<Wide>::zeros(parameter->owned_elements()));
    }
  }

  /// One step with the parameters' owned gradients, which must be reduced; `step` counts from 1.
  void step(double rate, double gradient_scale, std::int64_t step) {
    if (shapes_only::active()) return;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      any_parameter<Wide>& parameter = *parameters_[i];
      const auto numbers = detail::adamw_numbers_of(settings_, parameter.declaration().role, rate,
                                                    gradient_scale, step);
      kernel::adamw(parameter.owned_values(), first_[i].span(), second_[i].span(),
                    parameter.owned_gradient(), parameter.rounded_copy(), numbers);
    }
  }

  std::span<const Wide> first_moment(std::size_t i) const { return first_[i].span(); }
  std::span<const Wide> second_moment(std::size_t i) const { return second_[i].span(); }

 private:
  std::vector<any_parameter<Wide>*> parameters_;
  adamw_settings settings_;
  std::vector<buffer<Wide>> first_;
  std::vector<buffer<Wide>> second_;
};

}  // namespace tenon::inline v0
