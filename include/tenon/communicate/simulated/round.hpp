// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0::detail {

/// A request that owns its texts and counts, so that any thread may read it later.
struct posted_call {
  explicit posted_call(const request& given)
      : r(given),
        axis(given.axis),
        tensor(given.tensor),
        from_counts(given.from_counts.begin(), given.from_counts.end()),
        to_counts(given.to_counts.begin(), given.to_counts.end()) {
    r.axis = axis;
    r.tensor = tensor;
    r.from_counts = from_counts;
    r.to_counts = to_counts;
  }
  posted_call(const posted_call&) = delete;
  posted_call& operator=(const posted_call&) = delete;

  request r;
  std::string axis;
  std::string tensor;
  std::vector<std::int64_t> from_counts;
  std::vector<std::int64_t> to_counts;
  int color = 0;  // of a split
  int key = 0;
};

/// One call of all ranks of a group, or one send with its receive: each rank posts its part, and
/// the thread of the last one does the work of all of them.
struct round {
  explicit round(std::vector<int> members) : ranks(std::move(members)), calls(ranks.size()) {}

  std::vector<int> ranks;                           // [calls] rank in the group
  std::vector<std::unique_ptr<posted_call>> calls;  // [calls] null: has not come yet
  std::size_t posted = 0;
  bool working = false;
  bool finished = false;
  std::optional<error> failure;
  std::vector<std::unique_ptr<transport>> parts;  // [calls] of a split
};

/// Does the work of a round: moves the bytes, and counts those that cross from rank to rank.
class round_worker {
 public:
  /// `copied` [ranks of the group]; `limit`: elements in one piece.
  round_worker(round& all, std::vector<std::atomic<std::int64_t>>& copied, std::int64_t limit)
      : all_(all), copied_(copied), limit_(limit) {}

  void work() {
    switch (all_.calls.front()->r.call) {
      case collective::broadcast:
        return broadcast();
      case collective::all_gather:
        return all_gather();
      case collective::all_to_all:
        return all_to_all();
      case collective::reduce_scatter:
      case collective::all_reduce:
        return reduce();
      case collective::send:
        return cross(0, 1, call(1).to, call(0).from, call(0).count, by_sender);
      case collective::barrier:
      case collective::receive:
      case collective::split:
        return;
    }
  }

 private:
  static constexpr bool by_sender = true;
  static constexpr bool by_receiver = false;

  const request& call(std::size_t i) const { return all_.calls[i]->r; }
  std::size_t size() const { return all_.calls.size(); }

  void count(std::size_t from, std::size_t to, std::int64_t bytes, bool sender_counts) {
    if (from == to || call(0).bookkeeping) return;
    const int rank = all_.ranks[sender_counts ? from : to];
    copied_[static_cast<std::size_t>(rank)].fetch_add(bytes, std::memory_order_relaxed);
  }

  /// Copies elements from rank to rank, in pieces of the limit.
  void cross(std::size_t from, std::size_t to, void* target, const void* source,
             std::int64_t elements, bool sender_counts) {
    const element_kind kind = call(0).element;
    if (target == source) return;
    for (std::int64_t begin = 0; begin < elements; begin += limit_) {
      const std::int64_t piece = std::min(limit_, elements - begin);
      copy_elements(at(target, begin, kind), at(source, begin, kind), piece, kind);
      count(from, to, piece * bytes_of(kind), sender_counts);
    }
  }

  void broadcast() {
    const auto root = static_cast<std::size_t>(call(0).peer);
    for (std::size_t i = 0; i < size(); ++i) {
      if (i != root) cross(root, i, call(i).to, call(root).to, call(0).count, by_receiver);
    }
  }

  void all_gather() {
    const element_kind kind = call(0).element;
    const std::vector<std::int64_t> counts = all_.calls[0]->to_counts;
    for (std::size_t to = 0; to < size(); ++to) {
      std::int64_t offset = 0;
      for (std::size_t from = 0; from < size(); ++from) {
        cross(from, to, at(call(to).to, offset, kind), call(from).from, counts[from], by_receiver);
        offset += counts[from];
      }
    }
  }

  void all_to_all() {
    const element_kind kind = call(0).element;
    // What is exchanged in place is kept aside first.
    std::vector<std::vector<std::byte>> aside(size());
    std::vector<const std::byte*> sources(size());
    for (std::size_t i = 0; i < size(); ++i) {
      sources[i] = static_cast<const std::byte*>(call(i).from);
      if (call(i).from != call(i).to || sources[i] == nullptr) continue;
      aside[i].assign(sources[i], at(call(i).from, sum_of(call(i).from_counts), kind));
      sources[i] = aside[i].data();
    }
    std::vector<std::int64_t> placed(size(), 0);
    for (std::size_t from = 0; from < size(); ++from) {
      std::int64_t offset = 0;
      for (std::size_t to = 0; to < size(); ++to) {
        const std::int64_t elements = all_.calls[from]->from_counts[to];
        if (from != to || !call(to).own_in_place) {
          cross(from, to, at(call(to).to, placed[to], kind), at(sources[from], offset, kind),
                elements, by_sender);
        }
        offset += elements;
        placed[to] += elements;
      }
    }
  }

  /// Each piece goes to the rank that owns it and is merged there; all_reduce then gives it to all.
  /// The merge of piece p begins with rank p, as in a ring: what a network does with `any` order.
  void reduce() {
    const element_kind kind = call(0).element;
    const bool everywhere = call(0).call == collective::all_reduce;
    std::int64_t offset = 0;
    for (std::size_t piece = 0; piece < size(); ++piece) {
      const std::int64_t elements =
          everywhere ? balanced_piece(call(0).count, static_cast<int>(size()),
                                      static_cast<int>(piece), unit_of(call(0).reduction))
                     : all_.calls[0]->from_counts[piece];
      std::vector<std::byte> merged(static_cast<std::size_t>(elements * bytes_of(kind)));
      std::vector<const void*> sources(size());
      for (std::int64_t begin = 0; begin < elements; begin += limit_) {
        const std::int64_t part = std::min(limit_, elements - begin);
        for (std::size_t i = 0; i < size(); ++i) {
          const std::size_t from = (piece + i) % size();
          sources[i] = at(call(from).from, offset + begin, kind);
          count(from, piece, part * bytes_of(kind), by_sender);
        }
        merge_in_order(kind, call(0).reduction, sources, part,
                       merged.data() + begin * bytes_of(kind));
      }
      if (everywhere) {
        for (std::size_t to = 0; to < size(); ++to) {
          cross(piece, to, at(call(to).to, offset, kind), merged.data(), elements, by_receiver);
        }
      } else {
        copy_elements(call(piece).to, merged.data(), elements, kind);
      }
      offset += elements;
    }
  }

  round& all_;
  std::vector<std::atomic<std::int64_t>>& copied_;
  std::int64_t limit_;
};

/// Why the calls of two ranks do not fit together, as the sentence, or nothing.
inline std::string mismatch(const request& a, int rank_a, const request& b, int rank_b, int size) {
  const bool reduces = a.call == collective::all_reduce || a.call == collective::reduce_scatter;
  const bool same_counts = a.call != collective::all_to_all
                               ? a.count == b.count &&
                                     std::ranges::equal(a.to_counts, b.to_counts) &&
                                     std::ranges::equal(a.from_counts, b.from_counts)
                               : true;
  if (a.call == b.call && a.inside == b.inside && a.element == b.element && same_counts &&
      a.inside_count == b.inside_count && (!reduces || a.reduction == b.reduction) &&
      (a.call != collective::broadcast || a.peer == b.peer)) {
    return {};
  }
  std::string sentence = disagreement_sentence(a.axis, size, std::max(a.step, b.step), rank_a,
                                               described(a), rank_b, described(b));
  if (described(a) == described(b)) sentence += " (the counts of the single ranks differ)";
  return sentence;
}

/// The same for calls that must fit crosswise: a send and its receive, an all_to_all.
inline std::string crosswise_mismatch(const round& all, int size) {
  for (std::size_t i = 0; i < all.calls.size(); ++i) {
    for (std::size_t k = 0; k < all.calls.size(); ++k) {
      const posted_call &a = *all.calls[i], &b = *all.calls[k];
      std::int64_t sent = 0, expected = 0;
      if (a.r.call == collective::all_to_all) {
        sent = a.from_counts[k];
        expected = b.to_counts[i];
      } else if (a.r.call == collective::send && b.r.call == collective::receive) {
        sent = a.r.count;
        expected = b.r.count;
      }
      if (sent == expected && a.r.element == b.r.element) continue;
      return joined(disagreement_sentence(a.axis, size, a.r.step, all.ranks[i], described(a.r),
                                          all.ranks[k], described(b.r)),
                    " (rank ", all.ranks[i], " sends ", sent, " elements and rank ", all.ranks[k],
                    " expects ", expected, ")");
    }
  }
  return {};
}

}  // namespace tenon::inline v0::detail
