// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/schedule/time.hpp"

namespace schedules {

using namespace tenon;

/// Microbatches of the largest group of interleaved.
constexpr std::int64_t largest_group(const schedule_sizes& sizes) {
  const std::int64_t groups = std::max<std::int64_t>(1, sizes.microbatches / sizes.stages);
  return (sizes.microbatches + groups - 1) / groups;
}

/// How many open sends the documentation promises to be enough.
constexpr std::int64_t open_sends_promised(const schedule_sizes& sizes) {
  if (sizes.chunks == 1) return 0;
  return 1 + std::max<std::int64_t>(0, largest_group(sizes) - sizes.stages);
}

/// The most microbatches and chunks in flight on a rank, as documented.
constexpr std::int64_t in_flight_promised(pipeline_schedule schedule, const schedule_sizes& sizes,
                                          std::int64_t rank) {
  const auto [stages, microbatches, chunks] = sizes;
  if (schedule == pipeline_schedule::gpipe) return microbatches;
  if (chunks == 1) return std::min(stages - rank, microbatches);
  return std::min(2 * (stages - rank - 1) + (chunks - 1) * largest_group(sizes) + 1,
                  chunks * microbatches);
}

/// Units of time with unit costs, as documented; for interleaved with fewer microbatches than
/// stages, which has no such formula, at most the time of 1f1b over the same layers.
constexpr bool time_as_promised(pipeline_schedule schedule, const schedule_sizes& sizes,
                                const schedule_times& times) {
  const auto [P, M, V] = sizes;
  if (schedule == pipeline_schedule::zero_bubble) {
    const std::int64_t of_1f1b = 3 * (M + P - 1);
    return times.total == std::max(3 * M + P - 1, 2 * M + 2 * P - 1) &&
           (P == 1 ? times.total == of_1f1b : times.total < of_1f1b) &&
           (M < P || times.idle() == P * (P - 1));
  }
  if (M < P && V > 1) return times.total <= 3 * V * (M + P - 1);
  return times.total == 3 * (V * M + P - 1) &&
         times.idle() * (V * M + P - 1) == (P - 1) * P * times.total;
}

/// The schedule of these sizes has no fault, and its time and peak are as documented.
constexpr bool as_documented(pipeline_schedule schedule, const schedule_sizes& sizes) {
  const schedule_table table = make_schedule(schedule, sizes);
  if (check_schedule(table, open_sends_promised(sizes)).found()) return false;
  const schedule_times times = time_schedule(table);
  if (!time_as_promised(schedule, sizes, times)) return false;
  for (std::int64_t rank = 0; rank < sizes.stages; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (times.in_flight[r] != in_flight_promised(schedule, sizes, rank)) return false;
    const std::int64_t held = schedule == pipeline_schedule::zero_bubble
                                  ? std::min(sizes.stages, sizes.microbatches)
                                  : times.in_flight[r];
    if (times.held[r] != held) return false;
  }
  return true;
}

/// For 1 to 12 microbatches; one constant expression, so that each stays within the compilers'
/// limits.
template <pipeline_schedule Schedule, int Stages, int Chunks = 1>
constexpr bool documented() {
  for (std::int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
    if (!as_documented(Schedule, {Stages, microbatches, Chunks})) return false;
  }
  return true;
}

}  // namespace schedules
