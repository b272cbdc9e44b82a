// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/parallel/schedule/check.hpp"

namespace tenon::inline v0 {

/// Units of time of the passes of one microbatch and chunk; messages take none.
struct schedule_costs {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t input_gradient = 1;
  std::int64_t weight_gradient = 1;

  constexpr std::int64_t of(pass_kind pass) const noexcept {
    switch (pass) {
      case pass_kind::forward:
        return forward;
      case pass_kind::backward:
        return backward;
      case pass_kind::input_gradient:
        return input_gradient;
      case pass_kind::weight_gradient:
        return weight_gradient;
    }
    return 0;
  }
};

/// When each entry of a schedule runs, and what follows from it.
struct schedule_times {
  schedule_costs costs;
  std::vector<std::vector<std::int64_t>> begins;  ///< of each rank's entries, in units of time
  std::vector<std::int64_t> busy;                 ///< units of time that each rank works
  std::int64_t total = 0;                         ///< the end of the last entry

  /// The most microbatches and chunks of each rank at once whose forward has begun and whose
  /// backward or input gradient is not done.
  std::vector<std::int64_t> in_flight;
  /// The same, until the backward or weight gradient is done.
  std::vector<std::int64_t> held;

  /// Units of time in which ranks wait, over all ranks.
  constexpr std::int64_t idle() const noexcept {
    std::int64_t sum = total * static_cast<std::int64_t>(busy.size());
    for (const std::int64_t each : busy) sum -= each;
    return sum;
  }
  /// The share of all ranks' time in which they wait: 0 to 1.
  constexpr double bubble() const noexcept {
    return static_cast<double>(idle()) /
           (static_cast<double>(total) * static_cast<double>(busy.size()));
  }
};

/// Runs the table in units of time: an entry begins when the rank is done with the one before and
/// its message is there. Sends take no time and are not waited for. Linear in the entries.
/// Throws bad_request when the schedule has a fault or a cost is not positive.
constexpr schedule_times time_schedule(const schedule_table& table,
                                       const schedule_costs& costs = {}) {
  if (std::min({costs.forward, costs.backward, costs.input_gradient, costs.weight_gradient}) < 1) {
    require(false, "time_schedule: a pass of no time was given; each takes 1 unit or more");
  }
  require_sound(table);
  const std::size_t stages = table.ranks.size();
  schedule_times times;
  times.costs = costs;
  times.begins.resize(stages);
  times.busy.resize(stages, 0);
  times.in_flight.resize(stages, 0);
  times.held.resize(stages, 0);
  for (std::size_t r = 0; r < stages; ++r) times.begins[r].resize(table.ranks[r].size(), 0);

  struct rank_state {
    std::int64_t free_from = 0, in_flight = 0, held = 0;
  };
  std::vector<rank_state> ranks(stages);
  const std::int64_t of_a_link = table.sizes.microbatches * table.sizes.chunks;
  std::vector<std::int64_t> all_arrivals(2 * stages * static_cast<std::size_t>(of_a_link), 0);
  std::int64_t* const arrivals = all_arrivals.data();  // [link, message]
  detail::walk(table, any_open_sends, [&](const detail::walk_step& step) {
    const auto r = static_cast<std::size_t>(step.rank);
    const pass_kind pass = step.entry.pass;
    rank_state& state = ranks[r];
    std::int64_t begin = state.free_from;
    if (step.in != none_of_them) {
      const std::int64_t arrival = arrivals[step.in * of_a_link + step.message_in];
      if (begin < arrival) begin = arrival;
    }
    const std::int64_t cost = costs.of(pass);
    times.begins[r][step.position] = begin;
    times.busy[r] += cost;
    state.free_from = begin + cost;
    if (step.out != none_of_them) {
      arrivals[step.out * of_a_link + step.message_out] = state.free_from;
    }
    if (pass == pass_kind::forward) {
      if (++state.in_flight > times.in_flight[r]) times.in_flight[r] = state.in_flight;
      if (++state.held > times.held[r]) times.held[r] = state.held;
    } else {
      if (pass != pass_kind::weight_gradient) --state.in_flight;
      if (pass != pass_kind::input_gradient) --state.held;
    }
    return true;
  });
  for (const rank_state& each : ranks) times.total = std::max(times.total, each.free_from);
  return times;
}

}  // namespace tenon::inline v0
