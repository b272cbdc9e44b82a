// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenon/parallel/schedule/table.hpp"

namespace tenon::inline v0 {

/// Sends that are never waited for: any number of them may be open.
inline constexpr std::int64_t any_open_sends = std::numeric_limits<std::int64_t>::max();

namespace detail {

/// An entry about to run, and what it takes from a link and gives to one; a link is `none_of_them`
/// where there is none. Messages are numbered on their link, from 0.
struct walk_step {
  std::int64_t rank;
  std::size_t position;
  schedule_entry entry;
  std::int64_t in, message_in;
  std::int64_t out, message_out;
};

/// Runs the table as its ranks would, and calls visit(walk_step) for each entry, those on which it
/// depends before it; the walk ends when it returns false. A rank goes on when the next message of
/// its next entry's link is there, and at most `open_sends` of the messages on its last entry's
/// link have no receive waiting for them. Returns how many entries each rank ran: all, or it waits
/// there for ever. Linear in the entries: a rank is looked at again only when a message that it
/// waits for moves.
template <class Visit>
constexpr std::vector<std::size_t> walk(const schedule_table& table, std::int64_t open_sends,
                                        Visit&& visit) {
  struct rank_state {
    bool posted = false;   // the messages between the last entry and the next are under way
    bool waiting = false;  // it must be woken
    std::int64_t in = none_of_them, out = none_of_them;
  };
  struct link_state {
    std::int64_t sent = 0, asked = 0;  // messages, and receives, posted so far
  };
  const schedule_sizes sizes = table.sizes;
  const auto stages = static_cast<std::size_t>(sizes.stages);
  // Plain pointers: the compiler walks many tables, and each call costs it. Initial values: without
  // them clang refuses the library of g++ 12 in constant expressions.
  std::vector<std::size_t> done(stages, 0);
  std::vector<rank_state> all_ranks(stages);
  std::vector<link_state> all_links(2 * stages);
  std::vector<std::int64_t> list(stages, 0);  // a stack of the ranks to look at
  rank_state* const ranks = all_ranks.data();
  link_state* const links = all_links.data();
  std::int64_t* top = list.data();
  for (std::int64_t rank = sizes.stages; rank-- > 0;) *top++ = rank;

  while (top != list.data()) {
    const std::int64_t rank = *--top;
    rank_state& state = ranks[rank];
    const std::vector<schedule_entry>& listed = table.ranks[static_cast<std::size_t>(rank)];
    const schedule_entry* const entries = listed.data();
    const std::size_t count = listed.size();
    std::size_t position = done[static_cast<std::size_t>(rank)];
    for (;;) {
      if (!state.posted) {
        state.posted = true;
        state.in = position == count ? none_of_them : link_in(sizes, rank, entries[position]);
        if (state.out != none_of_them) {
          ++links[state.out].sent;
          const std::int64_t receiver = receiver_of(sizes, state.out);
          if (ranks[receiver].waiting) {
            ranks[receiver].waiting = false;
            *top++ = receiver;
          }
        }
        if (state.in != none_of_them) {
          ++links[state.in].asked;
          const std::int64_t sender = sender_of(sizes, state.in);
          if (ranks[sender].waiting) {
            ranks[sender].waiting = false;
            *top++ = sender;
          }
        }
      }
      if (position == count) break;
      if (state.in != none_of_them && links[state.in].sent < links[state.in].asked) break;
      if (state.out != none_of_them &&
          links[state.out].sent - links[state.out].asked > open_sends) {
        break;
      }
      walk_step step{rank,         position,     entries[position], state.in,
                     none_of_them, none_of_them, none_of_them};
      if (step.in != none_of_them) step.message_in = links[step.in].asked - 1;
      step.out = link_out(sizes, rank, step.entry);
      if (step.out != none_of_them) step.message_out = links[step.out].sent;
      if (!visit(step)) return done;
      state.out = step.out;
      state.posted = false;
      done[static_cast<std::size_t>(rank)] = ++position;
    }
    state.waiting = true;
  }
  return done;
}

}  // namespace detail
}  // namespace tenon::inline v0
