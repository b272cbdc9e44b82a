// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/communicate/reduction.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0 {

/// The calls that ranks make together.
enum class collective : std::uint8_t {
  barrier,
  broadcast,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  send,
  receive,
  split
};

inline constexpr std::size_t collectives = 9;

constexpr std::string_view name_of(collective call) noexcept {
  constexpr std::string_view names[] = {"barrier",        "broadcast",  "all_gather",
                                        "reduce_scatter", "all_reduce", "all_to_all",
                                        "send",           "receive",    "split"};
  return names[static_cast<int>(call)];
}

/// A global count that the ranks do not all know.
inline constexpr std::int64_t varies = -1;

/// What a call of a collective may say besides its buffers.
struct call_options {
  std::string_view tensor = {};        ///< name of the tensor, for messages
  bool start_only = false;             ///< return at once; the `pending` returned is waited for
  std::int64_t global_count = varies;  ///< all_to_all: elements over all ranks, when all know it
  int tag = 0;                ///< send and receive: 0 .. 16383, pairs a receive to its send
  place where = place::rank;  ///< of the buffers; host where a rank of a device passes host memory
};

/// One call of one rank, as a transport sees it. Counts are elements.
///
/// | call           | from                  | to                    | counts                      |
/// | -------------- | --------------------- | --------------------- | --------------------------- |
/// | broadcast      | -                     | `count`               | the same on all             |
/// | all_gather     | to_counts[rank]       | sum of to_counts      | the same on all             |
/// | reduce_scatter | sum of from_counts    | from_counts[rank]     | the same on all             |
/// | all_reduce     | `count`               | `count`               | the same on all             |
/// | all_to_all     | sum of from_counts    | sum of to_counts      | of each rank                |
/// | send           | `count`               | -                     |                             |
/// | receive        | -                     | `count`               |                             |
///
/// In place: all_reduce with from == to; all_gather with `from` at its own place in `to`;
/// reduce_scatter with `to` at its own place in `from` (the rest of `from` is then unspecified);
/// all_to_all with `own_in_place`: what a rank sends itself is counted, and lies in `to` already.
struct request {
  collective call = collective::barrier;
  element_kind element = element_kind::byte;
  reduction_kind reduction = reduction_kind::sum;
  const void* from = nullptr;
  void* to = nullptr;
  std::span<const std::int64_t> from_counts = {};
  std::span<const std::int64_t> to_counts = {};
  std::int64_t count = 0;
  int peer = 0;  ///< root of a broadcast, partner of a send or receive
  int tag = 0;
  std::int64_t global_count = varies;
  bool own_in_place = false;  ///< all_to_all: the rank's own piece is not touched
  bool bookkeeping = false;   ///< a call of the library's own checks: in no ledger and no count
  place where = place::rank;  ///< of the buffers: where the rank computes, or on the host

  // A step of a larger call is shown in messages as that call.
  std::optional<collective> inside = {};
  std::int64_t inside_count = 0;

  std::string_view axis = {};  // for messages
  std::string_view tensor = {};
  call_site site = {"", 0};
  std::int64_t step = 0;
};

constexpr std::int64_t sum_of(std::span<const std::int64_t> counts) noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// The elements that the call is about over all ranks, or `varies`.
constexpr std::int64_t global_count_of(const request& r) noexcept {
  switch (r.call) {
    case collective::all_gather:
      return sum_of(r.to_counts);
    case collective::reduce_scatter:
      return sum_of(r.from_counts);
    case collective::all_to_all:
      return r.global_count;
    default:
      return r.count;
  }
}

/// The least bytes that must cross for rank `rank` of `size`: the rule of the ledger. all_gather
/// and broadcast count what the rank receives; reduce_scatter, all_to_all and send what it sends;
/// all_reduce both of its halves, with the balanced piece of the rank. On one rank nothing crosses.
constexpr std::int64_t bytes_crossing(const request& r, int rank, int size) noexcept {
  if (size == 1) return 0;
  const auto me = static_cast<std::size_t>(rank);
  std::int64_t elements = 0;
  switch (r.call) {
    case collective::all_gather:
      elements = sum_of(r.to_counts) - r.to_counts[me];
      break;
    case collective::reduce_scatter:
    case collective::all_to_all:
      elements = sum_of(r.from_counts) - r.from_counts[me];
      break;
    case collective::all_reduce:
      elements = 2 * (r.count - balanced_piece(r.count, size, rank, unit_of(r.reduction)));
      break;
    case collective::broadcast:
      elements = rank == r.peer ? 0 : r.count;
      break;
    case collective::send:
      elements = r.count;
      break;
    case collective::barrier:
    case collective::receive:
    case collective::split:
      break;
  }
  return elements * bytes_of(r.element);
}

/// The part of a path after its last folders, short enough for a message: "parallel/data.hpp".
constexpr std::string_view short_path(std::string_view path) noexcept {
  std::size_t slashes = 0;
  for (std::size_t i = path.size(); i-- > 0;) {
    if (path[i] == '/' && ++slashes == 2) return path.substr(i + 1);
  }
  return path;
}

/// "all_reduce (sum) of 20 fp32 'weight' at parallel/data.hpp:12".
inline std::string described(const request& r) {
  const collective call = r.inside.value_or(r.call);
  const std::int64_t count = r.inside ? r.inside_count : global_count_of(r);
  std::string text(name_of(call));
  if (call == collective::all_reduce || call == collective::reduce_scatter) {
    text += joined(" (", name_of(r.reduction), ")");
  }
  if (call != collective::barrier && call != collective::split) {
    text += joined(" of ", count == varies ? std::string("varying") : std::to_string(count), " ",
                   name_of(r.element));
  }
  if (call == collective::broadcast || call == collective::receive) {
    text += joined(" from rank ", r.peer);
  }
  if (call == collective::send) text += joined(" to rank ", r.peer);
  if (!r.tensor.empty()) text += joined(" '", r.tensor, "'");
  if (r.site.line != 0) text += joined(" at ", short_path(r.site.file), ":", r.site.line);
  return text;
}

/// "axis data (4 ranks)".
inline std::string described_group(std::string_view axis, int size) {
  return joined("axis ", axis.empty() ? "?" : axis, " (", size, size == 1 ? " rank)" : " ranks)");
}

/// The sentence about two ranks that made different calls.
inline std::string disagreement_sentence(std::string_view axis, int size, std::int64_t step,
                                         int rank, const std::string& call, int other_rank,
                                         const std::string& other_call) {
  return joined("the ranks of ", described_group(axis, size), " disagree at step ", step, ": rank ",
                rank, " called ", call, ", and rank ", other_rank, " called ", other_call,
                "; all ranks of an axis make the same calls in the same order");
}

}  // namespace tenon::inline v0
