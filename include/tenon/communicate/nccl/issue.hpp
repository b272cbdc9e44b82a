// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "tenon/communicate/nccl/calls.hpp"
#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0::detail {

/// True when this rank has nothing to do for the call; partners then have nothing to do with it.
inline bool nothing_for_nccl(const request& r) {
  if (r.call != collective::all_to_all) return global_count_of(r) == 0;
  return sum_of(r.from_counts) == 0 && sum_of(r.to_counts) == 0;
}

/// Refuses what NCCL is not asked for: a communicator makes it from other calls.
inline void require_for_nccl(const request& r) {
  if (r.call != collective::all_reduce && r.call != collective::reduce_scatter) return;
  require_mergeable(r.element, r.reduction);
  require(r.element != element_kind::bf16 && r.reduction != reduction_kind::log_sum_exp,
          "nccl: a reduction of ", name_of(r.element), " by ", name_of(r.reduction),
          " was given to the transport; call it through a communicator, which merges it itself");
}

/// Turns one request into calls of NCCL on a communicator and its stream. Equal counts are one
/// call; where counts differ it is a group of broadcasts, reductions, or sends and receives:
///
///   all_gather-v      for each rank r with a piece: broadcast of it from r
///   reduce_scatter-v  for each rank r with a piece: reduction of it to r
///   all_to_all        for each other rank: a send and a receive; the own piece is copied
///
/// Each function returns the first answer that is an error, or the last.
template <class Calls>
class nccl_issue {
 public:
  using result = typename Calls::result;

  nccl_issue(Calls& calls, typename Calls::communicator communicator, typename Calls::stream stream,
             int rank, int size)
      : calls_(calls), communicator_(communicator), stream_(stream), rank_(rank), size_(size) {}

  /// `aside`: where the input of an all_to_all in place is kept, or null. Messages go between the
  /// two ranks of a communicator of their own: from 0 to 1.
  result operator()(const request& r, void* aside) {
    const auto count = static_cast<std::size_t>(r.count);
    switch (r.call) {
      case collective::all_reduce:
        return calls_.all_reduce(r.from, r.to, count, r.element, r.reduction, communicator_,
                                 stream_);
      case collective::broadcast:
        return calls_.broadcast(r.to, r.to, count, r.element, r.peer, communicator_, stream_);
      case collective::all_gather:
        return all_gather(r);
      case collective::reduce_scatter:
        return reduce_scatter(r);
      case collective::all_to_all:
        return all_to_all(r, aside);
      case collective::send:
        return calls_.send(r.from, count, r.element, 1, communicator_, stream_);
      case collective::receive:
        return calls_.receive(r.to, count, r.element, 0, communicator_, stream_);
      case collective::barrier:
      case collective::split:
        break;
    }
    return {};
  }

 private:
  static bool all_equal(std::span<const std::int64_t> counts) {
    return std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end();
  }
  bool is_error(result r) {
    const nccl_answer answer = calls_.answer_of(r);
    return answer != nccl_answer::done && answer != nccl_answer::in_progress;
  }

  /// A group ends as it began, whatever happens in it.
  template <class Body>
  result grouped(Body body) {
    const result started = calls_.group_start();
    if (is_error(started)) return started;
    result inside{};
    for (int other = 0; other < size_ && !is_error(inside); ++other) inside = body(other);
    const result ended = calls_.group_end();
    return is_error(inside) ? inside : ended;
  }

  result all_gather(const request& r) {
    if (all_equal(r.to_counts)) {
      return calls_.all_gather(r.from, r.to, static_cast<std::size_t>(r.to_counts[0]), r.element,
                               communicator_, stream_);
    }
    std::int64_t before = 0;
    return grouped([&](int root) -> result {
      const std::int64_t count = r.to_counts[static_cast<std::size_t>(root)];
      std::byte* const piece = at(r.to, before, r.element);
      before += count;
      if (count == 0) return {};
      const void* from = root == rank_ ? r.from : piece;
      return calls_.broadcast(from, piece, static_cast<std::size_t>(count), r.element, root,
                              communicator_, stream_);
    });
  }

  result reduce_scatter(const request& r) {
    if (all_equal(r.from_counts)) {
      return calls_.reduce_scatter(r.from, r.to, static_cast<std::size_t>(r.from_counts[0]),
                                   r.element, r.reduction, communicator_, stream_);
    }
    std::int64_t before = 0;
    return grouped([&](int root) -> result {
      const std::int64_t count = r.from_counts[static_cast<std::size_t>(root)];
      const std::byte* const piece = at(r.from, before, r.element);
      before += count;
      if (count == 0) return {};
      return calls_.reduce(piece, root == rank_ ? r.to : nullptr, static_cast<std::size_t>(count),
                           r.element, r.reduction, root, communicator_, stream_);
    });
  }

  result all_to_all(const request& r, void* aside) {
    const void* from = r.from;
    if (aside != nullptr) {
      copy(aside, r.from, sum_of(r.from_counts), r.element);
      from = aside;
    }
    const auto me = static_cast<std::size_t>(rank_);
    if (!r.own_in_place) {
      copy(at(r.to, sum_of(r.to_counts.first(me)), r.element),
           at(from, sum_of(r.from_counts.first(me)), r.element), r.from_counts[me], r.element);
    }
    std::int64_t sent = 0, came = 0;
    return grouped([&](int other) -> result {
      const auto i = static_cast<std::size_t>(other);
      const std::byte* const going = at(from, sent, r.element);
      std::byte* const coming = at(r.to, came, r.element);
      sent += r.from_counts[i];
      came += r.to_counts[i];
      result made{};
      if (other == rank_) return made;
      if (r.from_counts[i] > 0) {
        made = calls_.send(going, static_cast<std::size_t>(r.from_counts[i]), r.element, other,
                           communicator_, stream_);
      }
      if (r.to_counts[i] > 0 && !is_error(made)) {
        made = calls_.receive(coming, static_cast<std::size_t>(r.to_counts[i]), r.element, other,
                              communicator_, stream_);
      }
      return made;
    });
  }

  void copy(void* to, const void* from, std::int64_t count, element_kind kind) {
    if (count == 0 || to == from) return;
    calls_.copy(to, from, static_cast<std::size_t>(count * bytes_of(kind)), stream_);
  }

  Calls& calls_;
  typename Calls::communicator communicator_;
  typename Calls::stream stream_;
  int rank_;
  int size_;
};

}  // namespace tenon::inline v0::detail
