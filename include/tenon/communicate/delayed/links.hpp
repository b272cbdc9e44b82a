// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0 {

/// What a message between two ranks costs: `latency` seconds, and each byte 1 / `bytes_per_second`;
/// 0 bytes a second: bytes cost nothing.
struct link_cost {
  double latency = 0;
  double bytes_per_second = 0;

  constexpr double seconds(std::int64_t bytes) const noexcept {
    return latency + (bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0.0);
  }
};

/// The link between two ranks of the run, numbered as in the transport that was decorated first.
using link_function = std::function<link_cost(int from, int to)>;

namespace detail {

/// The seconds that this rank's part of a call takes; `members` are the ranks of the group, as
/// numbered in the run. Collectives go round the ring of the group's ranks, and each step takes as
/// long as the slowest pair with the largest piece:
///
///   all_gather, reduce_scatter   (d - 1) steps        all_reduce   2 (d - 1) steps
///   all_to_all                   to every other rank, one after another
///   broadcast, barrier           as many steps as a binary tree is high, over the slowest pair
///
/// What the library's own checks send costs nothing.
inline double seconds_of(const request& r, int rank, const std::vector<int>& members,
                         const link_function& links) {
  const int size = static_cast<int>(members.size());
  const auto member = [&](int i) { return members[static_cast<std::size_t>(i)]; };
  if (r.bookkeeping || size == 1) return 0;
  const auto ring_step = [&](std::int64_t elements) {
    double slowest = 0;
    for (int i = 0; i < size; ++i) {
      slowest = std::max(
          slowest,
          links(member(i), member((i + 1) % size)).seconds(elements * bytes_of(r.element)));
    }
    return slowest;
  };
  const auto tree = [&](std::int64_t elements) {
    return ring_step(elements) *
           static_cast<double>(std::bit_width(static_cast<unsigned>(size - 1)));
  };
  switch (r.call) {
    case collective::all_gather:
      return (size - 1) * ring_step(*std::ranges::max_element(r.to_counts));
    case collective::reduce_scatter:
      return (size - 1) * ring_step(*std::ranges::max_element(r.from_counts));
    case collective::all_reduce:
      return 2 * (size - 1) * ring_step(balanced_piece(r.count, size, 0, unit_of(r.reduction)));
    case collective::all_to_all: {
      double sum = 0;
      for (int i = 0; i < size; ++i) {
        if (i == rank) continue;
        const auto elements = r.from_counts[static_cast<std::size_t>(i)];
        sum += links(member(rank), member(i)).seconds(elements * bytes_of(r.element));
      }
      return sum;
    }
    case collective::send:
      return links(member(rank), member(r.peer)).seconds(r.count * bytes_of(r.element));
    case collective::broadcast:
      return tree(r.count);
    case collective::barrier:
      return tree(0);
    case collective::receive:
    case collective::split:
      return 0;
  }
  return 0;
}

/// The links that this rank's part of a call keeps busy, by the other rank in the group.
inline std::vector<int> links_of(const request& r, int rank, int size) {
  if (r.bookkeeping || size == 1) return {};
  if (r.call == collective::send) return {r.peer};
  if (r.call == collective::receive || r.call == collective::split) return {};
  if (r.call != collective::all_to_all) return {(rank + 1) % size};
  std::vector<int> others;
  for (int i = 1; i < size; ++i) others.push_back((rank + i) % size);
  return others;
}

/// When the calls of all ranks end: what the ranks of one simulated run share. A call is under way
/// once its last rank has come and its links are free: what goes from one rank to another follows
/// one another, while other pairs and the way back are links of their own. It ends after the
/// longest of its ranks' seconds.
/// Thread-safety: members may be called by all ranks at once.
class link_times {
 public:
  using clock = std::chrono::steady_clock;
  using link = std::pair<int, int>;  // from, to, in the run

  /// One call of a group: when it ends is known once all of its ranks have come.
  struct passage {
    std::size_t missing = 0;
    clock::time_point begin{};
    double seconds = 0;
    std::vector<link> links;
    clock::time_point end{};
  };
  /// Names a call alike on all of its ranks: the group, and the call's number in it; a message also
  /// its two ranks and its tag.
  using key = std::tuple<std::vector<int>, int, int, int, std::int64_t>;

  explicit link_times(link_function links) : cost_(std::move(links)) {}

  const link_function& cost() const noexcept { return cost_; }

  /// A rank has come to its call, of `ranks` ranks, with the links and the seconds of its part.
  std::shared_ptr<passage> come(const key& name, std::size_t ranks, const std::vector<link>& links,
                                double seconds) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<passage>& entry = open_[name];
    if (entry == nullptr) {
      entry = std::make_shared<passage>();
      entry->missing = ranks;
    }
    std::shared_ptr<passage> here = entry;
    here->begin = std::max(here->begin, clock::now());
    here->seconds = std::max(here->seconds, seconds);
    here->links.insert(here->links.end(), links.begin(), links.end());
    if (--here->missing > 0) return here;
    open_.erase(name);
    clock::time_point begin = here->begin;
    for (const link& one : here->links) begin = std::max(begin, free_[one]);
    here->end = begin + std::chrono::duration_cast<clock::duration>(
                            std::chrono::duration<double>(here->seconds));
    for (const link& one : here->links) free_[one] = here->end;
    return here;
  }

  /// The end of a call that all of its ranks have come to.
  clock::time_point end_of(const passage& one) {
    const std::lock_guard lock(mutex_);
    return one.end;
  }

 private:
  link_function cost_;
  std::mutex mutex_;  // guards what follows, and the passages
  std::map<key, std::shared_ptr<passage>> open_;
  std::map<link, clock::time_point> free_;  // from then on
};

}  // namespace detail
}  // namespace tenon::inline v0
