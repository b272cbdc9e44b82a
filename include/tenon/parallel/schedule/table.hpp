// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/parallel/schedule/choice.hpp"

namespace tenon::inline v0 {

/// What a stage does with a microbatch. A backward is one piece, or it is cut in two: the gradient
/// of the input, for which the stage before waits, and the gradient of the weights, for which
/// nobody does.
enum class pass_kind : std::uint8_t { forward, backward, input_gradient, weight_gradient };

constexpr std::string_view name_of(pass_kind pass) noexcept {
  switch (pass) {
    case pass_kind::forward:
      return "forward";
    case pass_kind::backward:
      return "backward";
    case pass_kind::input_gradient:
      return "input gradient";
    case pass_kind::weight_gradient:
      return "weight gradient";
  }
  return "";
}

/// One piece of work of one rank.
struct schedule_entry {
  pass_kind pass = pass_kind::forward;
  std::int32_t microbatch = 0;
  std::int32_t chunk = 0;

  friend constexpr bool operator==(const schedule_entry&, const schedule_entry&) = default;
};

/// A schedule as data: for each rank of the pipeline axis its work, in the order in which it does
/// it. How the ranks run it, and what `check_schedule` therefore checks:
///
///   for each entry: receive what it needs from another rank, run it, send what it made
///
/// Between two entries the send of the one and the receive of the other are under way together.
/// Forwards hand activations on from virtual stage s to s + 1; backwards and input gradients hand
/// gradients back from s to s - 1. The messages from one rank to another arrive in the order in
/// which they were sent, activations and gradients each in an order of their own.
/// Thread-safety: a value.
struct schedule_table {
  schedule_sizes sizes;
  std::vector<std::vector<schedule_entry>> ranks;

  friend constexpr bool operator==(const schedule_table&, const schedule_table&) = default;
};

/// Stands for: no rank, no entry, no message.
inline constexpr std::int64_t none_of_them = -1;

/// The virtual stage of a rank's chunk, from 0 at the input of the model.
constexpr std::int64_t virtual_stage(const schedule_sizes& sizes, std::int64_t rank,
                                     std::int64_t chunk) noexcept {
  return chunk * sizes.stages + rank;
}

namespace detail {

/// A link leads from one rank to a neighbour, for activations (links 0 to P - 1, by the sender) or
/// for gradients (P to 2 P - 1): with two stages, both neighbours are the same rank. The link on
/// which the entry's output goes out, or `none_of_them`.
constexpr std::int64_t link_out(const schedule_sizes& sizes, std::int64_t rank,
                                const schedule_entry& entry) noexcept {
  if (sizes.stages == 1 || entry.pass == pass_kind::weight_gradient) return none_of_them;
  if (entry.pass == pass_kind::forward) {
    return rank + 1 < sizes.stages || entry.chunk + 1 < sizes.chunks ? rank : none_of_them;
  }
  return rank > 0 || entry.chunk > 0 ? sizes.stages + rank : none_of_them;
}

/// The link on which the entry's input comes in, or `none_of_them`.
constexpr std::int64_t link_in(const schedule_sizes& sizes, std::int64_t rank,
                               const schedule_entry& entry) noexcept {
  if (sizes.stages == 1 || entry.pass == pass_kind::weight_gradient) return none_of_them;
  if (entry.pass == pass_kind::forward) {
    if (rank > 0) return rank - 1;
    return entry.chunk > 0 ? sizes.stages - 1 : none_of_them;
  }
  if (rank + 1 < sizes.stages) return sizes.stages + rank + 1;
  return entry.chunk + 1 < sizes.chunks ? sizes.stages : none_of_them;
}

constexpr std::int64_t sender_of(const schedule_sizes& sizes, std::int64_t link) noexcept {
  return link < sizes.stages ? link : link - sizes.stages;
}
constexpr std::int64_t receiver_of(const schedule_sizes& sizes, std::int64_t link) noexcept {
  if (link < sizes.stages) return link + 1 == sizes.stages ? 0 : link + 1;
  return link == sizes.stages ? sizes.stages - 1 : link - sizes.stages - 1;
}

}  // namespace detail

/// The rank to which the entry's output goes, or `none_of_them`: the last virtual stage's forward,
/// the first one's backward, a weight gradient, and what stays on the rank.
constexpr std::int64_t sends_to(const schedule_sizes& sizes, std::int64_t rank,
                                const schedule_entry& entry) noexcept {
  const std::int64_t link = detail::link_out(sizes, rank, entry);
  return link == none_of_them ? none_of_them : detail::receiver_of(sizes, link);
}

/// The rank from which the entry gets its input, or `none_of_them`.
constexpr std::int64_t receives_from(const schedule_sizes& sizes, std::int64_t rank,
                                     const schedule_entry& entry) noexcept {
  const std::int64_t link = detail::link_in(sizes, rank, entry);
  return link == none_of_them ? none_of_them : detail::sender_of(sizes, link);
}

/// The entry in words: "forward of microbatch 3, chunk 1"; the chunk only where there are several.
inline std::string described(const schedule_entry& entry, const schedule_sizes& sizes) {
  return joined(name_of(entry.pass), " of microbatch ", entry.microbatch,
                sizes.chunks > 1 ? joined(", chunk ", entry.chunk) : "");
}

}  // namespace tenon::inline v0
