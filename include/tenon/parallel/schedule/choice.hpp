// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// The order in which the stages of a pipeline work on the microbatches of a step.
///
///   gpipe         all forwards, then all backwards
///   1f1b          as few forwards ahead as keep all stages busy, then one backward, one forward
///   interleaved   1f1b over several chunks of layers a stage
///   zero-bubble   1f1b with the backward in two, the second half where a stage would wait
///
/// Bubble, the share of idle time, for P stages, V chunks and M microbatches, when a backward takes
/// a multiple of a forward's time:
///
///   gpipe, 1f1b   (P - 1) / (M + P - 1)
///   interleaved   (P - 1) / (V M + P - 1), where M >= P
///   zero-bubble   (P - 1) / (3 M + P - 1), where M >= P and all three parts take the same time;
///                 P - 1 units are idle a stage against 3 (P - 1) of 1f1b
///
/// Peak in flight, the activations of how many microbatches stage r holds at once:
///
///   gpipe         M
///   1f1b          min(P - r, M)
///   interleaved   min(2 (P - r - 1) + (V - 1) G + 1, V M) chunks of a V-th each; G: see
///   make_schedule zero-bubble   min(P - r, M) with the second half of backward still to begin, and
///                 min(P, M) until it is done
///
/// Source: Y. Huang et al., GPipe, NeurIPS 2019. D. Narayanan et al., Memory-efficient
/// pipeline-parallel DNN training, ICML 2021 (PipeDream-Flush), and Efficient large-scale language
/// model training on GPU clusters using Megatron-LM, SC 2021, for 1f1b and interleaved. P. Qi et
/// al., Zero bubble pipeline parallelism, 2023, for its schedule ZB-H1.
enum class pipeline_schedule : std::uint8_t {
  gpipe,
  one_forward_one_backward,
  interleaved,
  zero_bubble
};

inline constexpr std::array pipeline_schedules{
    pipeline_schedule::gpipe, pipeline_schedule::one_forward_one_backward,
    pipeline_schedule::interleaved, pipeline_schedule::zero_bubble};

/// The name as a flag has it: gpipe, 1f1b, interleaved, zero-bubble.
constexpr std::string_view name_of(pipeline_schedule schedule) noexcept {
  switch (schedule) {
    case pipeline_schedule::gpipe:
      return "gpipe";
    case pipeline_schedule::one_forward_one_backward:
      return "1f1b";
    case pipeline_schedule::interleaved:
      return "interleaved";
    case pipeline_schedule::zero_bubble:
      return "zero-bubble";
  }
  return "";
}

/// The schedule of that name, or nothing.
constexpr std::optional<pipeline_schedule> schedule_named(std::string_view name) noexcept {
  for (const pipeline_schedule schedule : pipeline_schedules) {
    if (name_of(schedule) == name) return schedule;
  }
  return std::nullopt;
}

/// How large a schedule is. The layers of a model are cut into stages x chunks virtual stages, one
/// after the other; virtual stage s is chunk s / stages of stage s % stages.
struct schedule_sizes {
  std::int64_t stages = 1;        ///< ranks on the pipeline axis
  std::int64_t microbatches = 1;  ///< of one step
  std::int64_t chunks = 1;        ///< pieces of layers on each stage

  friend constexpr bool operator==(const schedule_sizes&, const schedule_sizes&) = default;
};

/// Most forwards of a schedule, over all stages, microbatches and chunks.
inline constexpr std::int64_t most_forwards = std::int64_t{1} << 26;

/// True when all sizes are positive and the table is not too large to be written down.
constexpr bool can_be_scheduled(const schedule_sizes& sizes) noexcept {
  const auto [stages, microbatches, chunks] = sizes;
  return stages >= 1 && microbatches >= 1 && chunks >= 1 && stages <= most_forwards &&
         microbatches <= most_forwards / stages && chunks <= most_forwards / stages / microbatches;
}

/// True when `make_schedule` takes the sizes: only `interleaved` has several chunks.
constexpr bool can_be_scheduled(pipeline_schedule schedule, const schedule_sizes& sizes) noexcept {
  return can_be_scheduled(sizes) &&
         (sizes.chunks == 1 || schedule == pipeline_schedule::interleaved);
}

/// Throws bad_request with one sentence unless `can_be_scheduled`.
constexpr void require_schedulable(pipeline_schedule schedule, const schedule_sizes& sizes) {
  if (can_be_scheduled(schedule, sizes)) return;
  const auto [stages, microbatches, chunks] = sizes;
  require(stages >= 1 && microbatches >= 1 && chunks >= 1, "a pipeline of ", stages, " stages, ",
          microbatches, " microbatches and ", chunks,
          " chunks was asked for; each is at least 1; type 1 or more");
  require(chunks == 1 || schedule == pipeline_schedule::interleaved, "--chunks ", chunks,
          " does not fit --schedule ", name_of(schedule),
          "; interleaved alone has several chunks; type --schedule interleaved, or --chunks 1");
  require(false, "a pipeline of ", stages, " stages, ", microbatches, " microbatches and ", chunks,
          " chunks was asked for; their product is at most ", most_forwards,
          "; use fewer microbatches in a step");
}

}  // namespace tenon::inline v0
