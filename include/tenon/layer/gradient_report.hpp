// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// How a layer is compared with finite differences.
struct gradient_check_options {
  double step = 1e-5;             ///< by how much a value is moved, up and down
  std::int64_t elements = 8;      ///< of each tensor, moved one by one; then all of them together
  std::uint64_t seed = 1;         ///< of inputs, parameters and directions
  double dropout = 0;             ///< share of values dropped, in layers that drop
  std::int64_t tokens_below = 2;  ///< constant integers are drawn from 0 up to this
  double parameter_deviation = 0.3;  ///< normal noise added to the parameters' initial values
};

/// What came out for one input or parameter: the largest difference between backward's slope and
/// the finite difference, as a share of the tensor's largest slope (of a thousandth of all
/// tensors' largest where that is more: a slope may be zero in theory).
struct gradient_difference {
  std::string name;
  std::int64_t elements = 0;  ///< of the whole tensor
  double largest_slope = 0;
  double difference = 0;
};

/// What a check found, one entry for each input and parameter.
/// Thread-safety: a value.
struct gradient_report {
  std::vector<gradient_difference> all;

  /// The largest difference; infinite where one is not a number.
  double largest() const {
    double most = 0;
    for (const auto& one : all)
      most = std::isnan(one.difference) ? std::numeric_limits<double>::infinity()
                                        : std::max(most, one.difference);
    return most;
  }
  /// One line a tensor.
  std::string text() const {
    std::string lines;
    for (const auto& one : all) {
      char numbers[80];
      std::snprintf(numbers, sizeof numbers, "largest slope %.3g, difference %.1e",
                    one.largest_slope, one.difference);
      lines += joined(one.name, ": ", one.elements, " elements, ", numbers, "\n");
    }
    return lines;
  }
};

}  // namespace tenon::inline v0
