// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tenon/kernel/optimizer.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/prices.hpp"

namespace tenon::inline v0 {

/// Collective: the sum of a number over the ranks of a line.
template <storable Number>
Number sum_over(communicator& line, Number term, std::string_view name) {
  line.call({.call = collective::all_reduce,
             .element = kind_of<Number>,
             .from = &term,
             .to = &term,
             .count = 1},
            {.tensor = name, .where = place::host}, call_site::here());
  return term;
}

/// What `sum_over` sends for a number of 8 bytes.
inline void add_prices_of_sum(traffic_prices& prices, const communicator& line,
                              std::string_view phase) {
  if (line.size() == 1) return;
  const auto own = partition::balanced(1, line.size()).of(line.rank()).size;
  prices.add(line.axis(), "all_reduce", phase, 2 * (1 - own) * 8);
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
  return std::sqrt(sum_over(group.everyone(), squares, "gradient norm"));
}

/// What gradients are multiplied by so that their norm is at most `largest`: exactly largest / norm
/// where the norm is larger, else 1.
inline double clip_scale(double norm, double largest) noexcept {
  return norm > largest ? largest / norm : 1.0;
}

}  // namespace tenon::inline v0
