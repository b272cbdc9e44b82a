// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/parallel/schedule/table.hpp"

namespace tenon::inline v0 {
namespace detail {

/// The order in which all ranks take the forwards: groups of at least P microbatches, balanced,
/// each group through chunk 0, then chunk 1, ... With fewer than P microbatches, one group.
struct forward_order {
  std::vector<schedule_entry> forwards;
  std::int64_t largest_group = 0;

  constexpr explicit forward_order(const schedule_sizes& sizes) {
    const auto [stages, microbatches, chunks] = sizes;
    const std::int64_t groups = std::max(std::int64_t{1}, microbatches / stages);
    forwards.resize(static_cast<std::size_t>(microbatches * chunks));
    schedule_entry* next = forwards.data();
    std::int64_t begin = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t end =
          begin + microbatches / groups + (group < microbatches % groups ? 1 : 0);
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        for (std::int64_t microbatch = begin; microbatch < end; ++microbatch) {
          *next++ = {pass_kind::forward, static_cast<std::int32_t>(microbatch),
                     static_cast<std::int32_t>(chunk)};
        }
      }
      largest_group = std::max(largest_group, end - begin);
      begin = end;
    }
  }
};

/// How many forwards a rank is ahead of its backwards; the order above is as long as `all`.
constexpr std::int64_t forwards_ahead(pipeline_schedule schedule, const schedule_sizes& sizes,
                                      std::int64_t rank, std::int64_t largest_group,
                                      std::int64_t all) noexcept {
  const std::int64_t after = sizes.stages - rank - 1;
  if (schedule == pipeline_schedule::gpipe) return all;
  if (sizes.chunks == 1) return std::min(after, all);
  return std::min(2 * after + (sizes.chunks - 1) * largest_group, all);
}

}  // namespace detail

/// The table of a schedule, in time and memory linear in its entries. Any number of stages,
/// microbatches and chunks will do, fewer microbatches than stages too. Each rank runs
///
///   A forwards; then one more forward (while there are any) and one backward, in turn
///
/// with A = M for gpipe, P - r - 1 on rank r for 1f1b and zero-bubble, 2 (P - r - 1) + (V - 1) G
/// for interleaved. The backwards take the microbatches in the order of the forwards, in gpipe too:
/// so gradients are added in one order, whatever the schedule.
///
/// Interleaved: the microbatches go in groups, each through all chunks of a rank before the next
/// group. Where P divides M a group is P microbatches, as in Megatron-LM, which refuses any other
/// M. Here groups are balanced and of at least P, at most G <= 2 P - 1: a group smaller than P
/// would come back to the first rank before it has passed the last, and all would wait.
///
/// Zero-bubble (ZB-H1): each backward is an input gradient, and the weight gradient of the r-th
/// microbatch before it follows on rank r; what is left of them fills the end, where 1f1b waits.
///
/// Throws bad_request unless `can_be_scheduled(schedule, sizes)`.
constexpr schedule_table make_schedule(pipeline_schedule schedule, const schedule_sizes& sizes) {
  require_schedulable(schedule, sizes);
  const detail::forward_order order(sizes);
  const schedule_entry* forwards = order.forwards.data();
  const auto all = static_cast<std::int64_t>(order.forwards.size());
  const bool in_two = schedule == pipeline_schedule::zero_bubble;
  const pass_kind backward = in_two ? pass_kind::input_gradient : pass_kind::backward;

  schedule_table table{sizes, {}};
  table.ranks.resize(static_cast<std::size_t>(sizes.stages));
  for (std::int64_t rank = 0; rank < sizes.stages; ++rank) {
    std::vector<schedule_entry>& entries = table.ranks[static_cast<std::size_t>(rank)];
    entries.resize(static_cast<std::size_t>(all * (in_two ? 3 : 2)));
    schedule_entry* next = entries.data();
    const std::int64_t ahead =
        detail::forwards_ahead(schedule, sizes, rank, order.largest_group, all);
    const std::int64_t late = std::min(rank, all);  // weight gradients behind the input gradients
    for (std::int64_t i = 0; i < ahead; ++i) *next++ = forwards[i];
    for (std::int64_t i = 0; i < all; ++i) {
      if (i + ahead < all) *next++ = forwards[i + ahead];
      const auto chunk = static_cast<std::int32_t>(sizes.chunks - 1 - forwards[i].chunk);
      *next++ = {backward, forwards[i].microbatch, chunk};
      if (in_two && i >= late) {
        *next++ = {pass_kind::weight_gradient, forwards[i - late].microbatch, 0};
      }
    }
    for (std::int64_t i = all - late; in_two && i < all; ++i) {
      *next++ = {pass_kind::weight_gradient, forwards[i].microbatch, 0};
    }
  }
  return table;
}

}  // namespace tenon::inline v0
