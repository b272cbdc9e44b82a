// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tenon::inline v0 {

/// The learning rate of every step: it rises in equal parts over `warmup` steps to `peak`, which
/// step warmup-1 has, then falls as half a cosine to `floor_share` of the peak, which the last step
/// has. A warm-up longer than the run is cut off by the end of the run.
/// Source: I. Loshchilov, F. Hutter, SGDR, ICLR 2017 (the cosine); P. Goyal et al., Accurate, large
/// minibatch SGD, 2017 (the warm-up).
/// Thread-safety: a value.
struct learning_rate_schedule {
  double peak = 1e-3;
  std::int64_t warmup = 20;
  std::int64_t steps = 200;
  double floor_share = 0.1;

  /// The rate of a step, counted from 0. After the last step it stays at the floor.
  double at(std::int64_t step) const noexcept {
    if (step < warmup) return peak * (static_cast<double>(step + 1) / static_cast<double>(warmup));
    if (step + 1 >= steps) return peak * floor_share;
    const double done =
        static_cast<double>(step + 1 - warmup) / static_cast<double>(steps - warmup);
    const double height = 0.5 * (1 + std::cos(std::numbers::pi * done));
    return peak * (floor_share + (1 - floor_share) * height);
  }
};

}  // namespace tenon::inline v0
