// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tenon/kernel/optimizer.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/prices.hpp"

namespace tenon::inline v0 {

/// Collective: the sum of a number over all ranks.
inline double sum_over_all(communicator& everyone, double term, std::string_view name) {
  everyone.call({.call = collective::all_reduce,
                 .element = element_kind::fp64,
                 .from = &term,
                 .to = &term,
                 .count = 1},
                {.tensor = name}, call_site::here());
  return term;
}

/// What `sum_over_all` sends.
template <class Mesh>
void add_prices_of_sum(prices_on<Mesh>& prices, const communicator& everyone,
                       std::string_view phase) {
  if (everyone.size() == 1) return;
  const auto own = partition::balanced(1, everyone.size()).of(everyone.rank()).size;
  prices.add(everyone.axis(), "all_reduce", phase, 2 * (1 - own) * std::int64_t{sizeof(fp64)});
}

/// Collective: the norm of the whole gradient, sqrt of the sum of all squares, in fp64. Every
/// element counts once: an owned piece on the rank that owns it, an invariant one at coordinate 0.
/// The gradients must be reduced.
template <element Wide, class Mesh>
double gradient_norm(const std::vector<any_parameter<Wide>*>& parameters, ranks<Mesh>& group) {
  double squares = 0;
  for (any_parameter<Wide>* parameter : parameters) {
    if (parameter->counted_here()) squares += kernel::sum_of_squares(parameter->owned_gradient());
  }
  return std::sqrt(sum_over_all(group.everyone(), squares, "gradient norm"));
}

/// What gradients are multiplied by so that their norm is at most `largest`: exactly largest / norm
/// where the norm is larger, else 1.
inline double clip_scale(double norm, double largest) noexcept {
  return norm > largest ? largest / norm : 1.0;
}

}  // namespace tenon::inline v0
