// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/parallel/schedule/walk.hpp"

namespace tenon::inline v0 {

/// What is wrong with a schedule.
enum class schedule_fault_kind : std::uint8_t {
  none,
  sizes,             ///< not positive, too large, or another number of ranks than stages
  outside,           ///< a microbatch or chunk that the sizes do not have
  repeated,          ///< the same work twice, or a backward both whole and in two
  missing,           ///< work that no entry does; the fault names it, its entry is none
  too_early,         ///< before work of the same rank that it needs
  order_of_arrival,  ///< another message arrives first on this link
  deadlock,          ///< ranks wait for each other for ever, whatever the sends do
  blocked_send       ///< they do with the open sends given, not with more
};

/// The first fault found, and where.
struct schedule_fault {
  schedule_fault_kind kind = schedule_fault_kind::none;
  std::int64_t rank = none_of_them;
  std::int64_t position = none_of_them;  ///< of the entry, in the rank's list
  schedule_entry entry = {};

  constexpr bool found() const noexcept { return kind != schedule_fault_kind::none; }
  friend constexpr bool operator==(const schedule_fault&, const schedule_fault&) = default;
};

namespace detail {

/// What one rank has done for one microbatch and chunk.
struct work_done {
  bool forward = false, input = false, weight = false;
};

/// Each rank by itself: all work is there, once, in an order that its own results allow.
constexpr schedule_fault fault_of_rank(const schedule_table& table, std::int64_t rank) {
  const std::int64_t microbatches = table.sizes.microbatches, chunks = table.sizes.chunks;
  const bool alone = table.sizes.stages == 1;  // then all virtual stages are here
  std::vector<work_done> work_of_all(static_cast<std::size_t>(microbatches * chunks));
  work_done* const all = work_of_all.data();  // [chunk, microbatch]
  const std::vector<schedule_entry>& listed = table.ranks[static_cast<std::size_t>(rank)];
  const schedule_entry* const entries = listed.data();
  const auto count = static_cast<std::int64_t>(listed.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const schedule_entry entry = entries[i];
    const std::int64_t place = entry.chunk * microbatches + entry.microbatch;
    if (entry.microbatch < 0 || entry.microbatch >= microbatches || entry.chunk < 0 ||
        entry.chunk >= chunks || entry.pass > pass_kind::weight_gradient) {
      return {schedule_fault_kind::outside, rank, i, entry};
    }
    work_done& work = all[place];
    bool repeated = false, ready = true;
    if (entry.pass == pass_kind::forward) {
      repeated = work.forward;
      ready = !alone || entry.chunk == 0 || all[place - microbatches].forward;
      work.forward = true;
    } else if (entry.pass == pass_kind::weight_gradient) {
      repeated = work.weight;
      ready = work.input;
      work.weight = true;
    } else {
      repeated = work.input;
      ready =
          work.forward && (!alone || entry.chunk + 1 == chunks || all[place + microbatches].input);
      work.input = true;
      work.weight = entry.pass == pass_kind::backward;
    }
    if (repeated) return {schedule_fault_kind::repeated, rank, i, entry};
    if (!ready) return {schedule_fault_kind::too_early, rank, i, entry};
  }
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      const work_done& work = all[chunk * microbatches + microbatch];
      if (work.forward && work.input && work.weight) continue;
      const pass_kind pass = !work.forward ? pass_kind::forward
                             : !work.input ? pass_kind::backward
                                           : pass_kind::weight_gradient;
      return {schedule_fault_kind::missing,
              rank,
              none_of_them,
              {pass, static_cast<std::int32_t>(microbatch), static_cast<std::int32_t>(chunk)}};
    }
  }
  return {};
}

/// The ranks together: each message is the one that its receiver needs next, and all come to the
/// end of their lists. Each rank's work must be complete, so that a link has at most as many
/// messages as there are microbatches and chunks.
constexpr schedule_fault fault_of_messages(const schedule_table& table, std::int64_t open_sends) {
  const schedule_sizes sizes = table.sizes;
  const std::int64_t of_a_link = sizes.microbatches * sizes.chunks;
  std::vector<schedule_entry> all_sent(static_cast<std::size_t>(2 * sizes.stages * of_a_link));
  schedule_entry* const sent = all_sent.data();  // [link, message]
  schedule_fault fault;
  const auto done = walk(table, open_sends, [&](const walk_step& step) {
    if (step.out != none_of_them) sent[step.out * of_a_link + step.message_out] = step.entry;
    if (step.in == none_of_them) return true;
    // From the last rank to the first, and back, a message passes to another chunk.
    std::int64_t chunk = sent[step.in * of_a_link + step.message_in].chunk;
    if (step.in == sizes.stages - 1) ++chunk;
    if (step.in == sizes.stages) --chunk;
    if (chunk == step.entry.chunk &&
        sent[step.in * of_a_link + step.message_in].microbatch == step.entry.microbatch) {
      return true;
    }
    fault = {schedule_fault_kind::order_of_arrival, step.rank,
             static_cast<std::int64_t>(step.position), step.entry};
    return false;
  });
  if (fault.found()) return fault;
  for (std::size_t rank = 0; rank < done.size(); ++rank) {
    if (done[rank] == table.ranks[rank].size()) continue;
    return {open_sends == any_open_sends ? schedule_fault_kind::deadlock
                                         : schedule_fault_kind::blocked_send,
            static_cast<std::int64_t>(rank), static_cast<std::int64_t>(done[rank]),
            table.ranks[rank][done[rank]]};
  }
  return {};
}

}  // namespace detail

/// Checks any table, a user's own too, in time and memory linear in its entries:
/// - on each rank, every microbatch and chunk has one forward, then one backward, or one input
///   gradient and then one weight gradient;
/// - every receive finds its send, in the order in which messages arrive (`schedule_table`);
/// - no ranks wait for each other for ever.
///
/// `open_sends` says what a run may lean on: how many messages a rank may have sent to another, of
/// activations or of gradients, for which no receive is waiting yet, and still go on. 0 is a
/// blocking send that is posted together with the receive of the next entry, as a send-receive; it
/// is enough for gpipe, 1f1b and zero-bubble. Interleaved with several chunks is a ring, in which
/// such sends wait for each other: it needs 1 where P divides M, and at most 1 + G - P else (G: see
/// make_schedule). A non-blocking send that is waited for only when it is done needs
/// `any_open_sends` and no buffer of the transport's.
/// Of several faults it tells one, the same whatever `open_sends`.
constexpr schedule_fault check_schedule(const schedule_table& table,
                                        std::int64_t open_sends = any_open_sends) {
  if (!can_be_scheduled(table.sizes) ||
      static_cast<std::int64_t>(table.ranks.size()) != table.sizes.stages) {
    return {schedule_fault_kind::sizes};
  }
  for (std::int64_t rank = 0; rank < table.sizes.stages; ++rank) {
    if (const auto fault = detail::fault_of_rank(table, rank); fault.found()) return fault;
  }
  const auto fault = detail::fault_of_messages(table, open_sends);
  if (!fault.found() || open_sends == any_open_sends) return fault;
  const auto with_any = detail::fault_of_messages(table, any_open_sends);
  return with_any.found() ? with_any : fault;
}

/// The fewest open sends with which a schedule without faults runs, see `check_schedule`.
constexpr std::int64_t open_sends_needed(const schedule_table& table) {
  std::int64_t enough = 0;
  std::int64_t too_few = -1;
  while (detail::fault_of_messages(table, enough).found()) {
    too_few = enough;
    enough = 2 * enough + 1;
  }
  while (enough - too_few > 1) {
    const std::int64_t middle = (too_few + enough) / 2;
    (detail::fault_of_messages(table, middle).found() ? too_few : enough) = middle;
  }
  return enough;
}

/// The fault as one sentence; the table is the one that was checked.
inline std::string sentence_of(const schedule_fault& fault, const schedule_table& table) {
  const std::string who = joined("the schedule's rank ", fault.rank);
  const std::string what = described(fault.entry, table.sizes);
  const std::string where = joined(who, ", entry ", fault.position, ", ", what, ": ");
  switch (fault.kind) {
    case schedule_fault_kind::none:
      return "the schedule has no fault";
    case schedule_fault_kind::sizes:
      return joined("the schedule has ", table.sizes.stages, " stages, ", table.sizes.microbatches,
                    " microbatches, ", table.sizes.chunks, " chunks and lists for ",
                    table.ranks.size(), " ranks; give positive sizes and one list a stage");
    case schedule_fault_kind::outside:
      return joined(where, "there are ", table.sizes.microbatches, " microbatches and ",
                    table.sizes.chunks, " chunks, counted from 0; give one of these");
    case schedule_fault_kind::repeated:
      return joined(where, "it was done before; list it once");
    case schedule_fault_kind::missing:
      return joined(who, " has no ", what, "; list it once");
    case schedule_fault_kind::too_early:
      return joined(where, "the work of this rank that it needs comes later; move it behind that");
    case schedule_fault_kind::order_of_arrival:
      return joined(where, "another message from rank ",
                    receives_from(table.sizes, fault.rank, fault.entry),
                    " arrives first; list the work on both ranks in one order");
    case schedule_fault_kind::deadlock:
      return joined(where, "it waits for ever, as do the ranks it waits for; move it back, or ",
                    "what they wait for forward");
    case schedule_fault_kind::blocked_send:
      return joined(where, "it waits for ever when sends block; leave more sends open");
  }
  return "";
}

/// Throws bad_request with the fault's sentence, unless there is none.
constexpr void require_sound(const schedule_table& table,
                             std::int64_t open_sends = any_open_sends) {
  const schedule_fault fault = check_schedule(table, open_sends);
  if (fault.found()) require(false, sentence_of(fault, table));
}

}  // namespace tenon::inline v0
