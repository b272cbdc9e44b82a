// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>

#include "tenon/base/check.hpp"
#include "tenon/communicate/sum_order.hpp"
#include "tenon/layer/context.hpp"
#include "tenon/parallel/schedule/choice.hpp"
#include "tenon/parallel/shards.hpp"
#include "tenon/placement/token_order.hpp"

namespace tenon::inline v0 {

/// How a run is spread over ranks, as values: what the programs' flags set and what the trainer
/// reads. A field that changes when, how often or in what order moves run stands here, never in a
/// type.
/// Thread-safety: a value.
struct run_strategy {
  int data = 0;                     ///< ranks on the data axis; 0 takes the ranks that are left
  int tensor = 1;                   ///< ranks on the tensor axis
  int tensor_grid = 1;              ///< side of a square of ranks in its place; 1: none
  bool split_sequence = false;      ///< between the products, cut the sequence on the tensor axis
  sum_order sums = sum_order::any;  ///< order of the sums over ranks
  int expert = 1;                   ///< ranks on the expert axis
  int pipeline = 1;                 ///< stages
  tenon::shards shards = tenon::shards::none;
  int data_shard = 0;  ///< ranks of the data axis that divide parameters; 0: all
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  int chunks = 1;  ///< pieces of layers on each stage
  tenon::recompute recompute = tenon::recompute::none;
  int context = 1;         ///< ranks on the context axis, which share each sequence
  int heads_parallel = 1;  ///< of these, how many next to one another exchange heads
  int ring_window = 0;     ///< members of an inner ring of attention; 0: one ring of all
  token_order_kind order = token_order_kind::zigzag;  ///< of the tokens on the context axis

  friend constexpr bool operator==(const run_strategy&, const run_strategy&) noexcept = default;
};

namespace detail {

// An extent beside the flag that sets it; all but data, which may be open.
struct named_extent {
  std::string_view flag;
  int extent;
};
constexpr std::array<named_extent, 5> closed_extents(const run_strategy& run) noexcept {
  return {{{"--pipeline", run.pipeline},
           {"--expert-parallel", run.expert},
           {"--context", run.context},
           {"--tensor", run.tensor},
           {"--tensor-grid", run.tensor_grid}}};
}

// The grid has the ranks that the tensor axis would have.
constexpr void check_grid(const run_strategy& run) {
  if (run.tensor_grid > 1 && run.tensor > 1) {
    require(false, "--tensor-grid ", run.tensor_grid, " does not go with --tensor ", run.tensor,
            "; the tensor axis is a line of ranks or a square of them; type one of the two");
  }
  if (run.tensor_grid > 1 && run.split_sequence) {
    require(false, "--tensor-grid ", run.tensor_grid,
            " does not go with --split-sequence; the stream is cut on the grid already; type "
            "--tensor-grid ",
            run.tensor_grid, " alone");
  }
}

// The two extents of attention over contexts must divide what they divide.
constexpr void check_context(const run_strategy& run) {
  if (run.heads_parallel < 1 || run.context % run.heads_parallel != 0) {
    require(false, "--heads-parallel ", run.heads_parallel, " does not divide --context ",
            run.context, "; that many ranks of the context axis exchange heads; type ",
            "--heads-parallel ", std::gcd(run.context, run.heads_parallel));
  }
  const int members = run.context / run.heads_parallel;
  if (run.ring_window < 0 || (run.ring_window > 0 && members % run.ring_window != 0)) {
    require(false, "--ring-window ", run.ring_window, " does not divide the ring of ", members,
            members == 1 ? " rank" : " ranks", " (--context ", run.context, " over ",
            "--heads-parallel ", run.heads_parallel, "); type --ring-window ",
            run.ring_window < 0 ? members : std::gcd(members, run.ring_window));
  }
}

}  // namespace detail

/// The extents as the user types them: "--data 2 --tensor 4"; what is left open, and an extent of 1
/// that is not that of the tensor axis, is not named.
inline std::string extents_text(const run_strategy& run) {
  std::string text;
  if (run.data != 0 && run.data_shard > 0 && run.data % run.data_shard == 0) {
    text = joined("--data ", run.data / run.data_shard, ",", run.data_shard);
  } else if (run.data != 0) {
    text = joined("--data ", run.data);
  }
  for (const auto& [flag, extent] : detail::closed_extents(run)) {
    if (extent == 1 && (flag != "--tensor" || run.tensor_grid > 1)) continue;
    text += joined(text.empty() ? "" : " ", flag, " ", extent);
  }
  return text;
}

/// The number of ranks that the strategy needs, or a divisor of it when the data extent is open;
/// the largest number there is when it is larger.
constexpr std::int64_t ranks_needed(const run_strategy& run) noexcept {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  std::int64_t product = run.data == 0 ? 1 : run.data;
  for (const auto& [flag, extent] : detail::closed_extents(run)) {
    product = product > largest / extent ? largest : product * extent;
  }
  const std::int64_t side = run.tensor_grid;  // a square of ranks
  return product > largest / side ? largest : product * side;
}

/// The strategy with its open extent filled in for a run of `ranks` ranks. Throws bad_request with
/// one sentence when an extent is not positive or the product of the extents is not `ranks`.
constexpr run_strategy laid_out(run_strategy run, int ranks) {
  bool positive = run.data >= 0;
  for (const auto& [flag, extent] : detail::closed_extents(run)) positive = positive && extent >= 1;
  if (!positive) {
    require(false, "the strategy ", extents_text(run),
            " has an extent that is not positive; every extent is at least 1; type --data 1 "
            "--tensor 1");
  }
  detail::check_context(run);
  detail::check_grid(run);
  if (ranks < 1) require(false, "a run has ", ranks, " ranks; it has at least 1");
  const std::int64_t needed = ranks_needed(run);
  const bool open = run.data == 0;
  if (open ? ranks % needed != 0 : needed != ranks) {
    // Each closed extent in turn as large as the ranks that are left allow.
    run_strategy fits = run;
    int left = ranks;
    while (left % fits.tensor_grid != 0 || left / fits.tensor_grid % fits.tensor_grid != 0) {
      --fits.tensor_grid;
    }
    left /= fits.tensor_grid * fits.tensor_grid;
    for (int* extent : {&fits.tensor, &fits.context, &fits.expert, &fits.pipeline}) {
      *extent = std::gcd(*extent, left);
      left /= *extent;
    }
    fits.data = left;
    fits.data_shard = 0;
    require(false, "the strategy ", extents_text(run), " needs ", open ? "a multiple of " : "",
            needed, " ranks, and this run has ", ranks,
            "; the product of all extents is the number of ranks; start it with mpirun -n ", needed,
            ", or type ", extents_text(fits),
            fits.context != run.context && (run.heads_parallel > 1 || run.ring_window > 0)
                ? " and neither --heads-parallel nor --ring-window"
                : "");
  }
  if (open) run.data = static_cast<int>(ranks / needed);
  if (run.data_shard < 0 || (run.data_shard > 0 && run.data % run.data_shard != 0)) {
    require(
        false, "the strategy divides parameters over ", run.data_shard, " of ", run.data,
        " data ranks; as many as divide them are allowed; type --data R,S with R x S = ", run.data);
  }
  if (run.data_shard > 0 && run.shards == shards::none) {
    require(false, "--data ", run.data / run.data_shard, ",", run.data_shard,
            " says over how many ranks parameters are divided, and --shards none divides none; "
            "type --data ",
            run.data, ", or --shards parameters");
  }
  require_schedulable(run.schedule, {run.pipeline, 1, run.chunks});
  return run;
}

}  // namespace tenon::inline v0
