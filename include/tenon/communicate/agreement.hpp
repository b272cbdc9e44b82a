// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/checks.hpp"
#include "tenon/base/text.hpp"
#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0 {

namespace detail {

/// A call as it travels between ranks for comparison: plain bytes, texts cut to fit.
struct call_record {
  std::int64_t sequence = 0;
  std::uint64_t hash_before = 0;
  std::uint64_t hash_after = 0;
  std::int64_t step = 0;
  char text[232] = {};

  void set_text(std::string_view whole) {
    // The end of the text, with the line of the program, says more than its middle.
    constexpr std::size_t room = sizeof(text) - 1;
    if (whole.size() <= room) {
      std::memcpy(text, whole.data(), whole.size());
    } else {
      std::memcpy(text, whole.data(), room / 2);
      std::memcpy(text + room / 2, whole.data() + whole.size() - (room - room / 2),
                  room - room / 2);
    }
  }
};

inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) noexcept {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDULL;
}

}  // namespace detail

/// Whether the ranks of one communicator make the same calls. Every call enters a rolling hash, and
/// `compare` exchanges the hashes: 16 bytes a rank. The last 64 calls are kept, so that the first
/// one that differs can be named. Sends and receives are not the group's and do not enter.
/// Thread-safety: none; it belongs to one rank's thread.
class agreement {
 public:
  static constexpr std::int64_t kept = 64;

  /// True when TENON_CHECK=calls asks for a comparison before every call.
  static bool asked_for_every_call() { return checks_for("calls"); }

  std::int64_t calls() const noexcept { return sequence_; }

  void enter(const request& r) {
    entry& e = last_[static_cast<std::size_t>(sequence_ % kept)];
    ++sequence_;
    e.hash_before = hash_;
    e.count = global_count_of(r);
    hash_ = detail::mixed(hash_, (static_cast<std::uint64_t>(r.call) << 24) |
                                     (static_cast<std::uint64_t>(r.element) << 16) |
                                     static_cast<std::uint64_t>(r.reduction));
    hash_ = detail::mixed(hash_, static_cast<std::uint64_t>(e.count));
    hash_ = detail::mixed(hash_, (static_cast<std::uint64_t>(r.peer) << 32) |
                                     static_cast<std::uint32_t>(r.site.line));
    hash_ = detail::mixed(hash_, hash_of(r.tensor));
    hash_ = detail::mixed(hash_, hash_of_file(r.site.file));
    e.hash_after = hash_;
    e.step = r.step;
    e.file = r.site.file;
    e.line = r.site.line;
    e.peer = r.peer;
    e.call = r.call;
    e.element = r.element;
    e.reduction = r.reduction;
    e.tensor = r.tensor;
  }

  /// Collective. Throws disagreement, on every rank with the same sentence, when the calls of two
  /// ranks differ.
  void compare(transport& group, std::string_view axis, std::int64_t step) {
    if (group.size() == 1) return;
    const std::array<std::int64_t, 2> mine{sequence_, static_cast<std::int64_t>(hash_)};
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group.size()));
    gather(group, axis, step, element_kind::int64, 2, mine.data(), all.data());
    bool same = true;
    for (std::size_t i = 2; i < all.size(); ++i) same = same && all[i] == all[i % 2];
    if (!same) throw error(error_kind::disagreement, difference(group, axis, step));
  }

 private:
  /// The hash of a path, remembered by the place of the text, which is a literal.
  std::uint64_t hash_of_file(const char* file) {
    auto& known = files_[(reinterpret_cast<std::uintptr_t>(file) >> 4) % files_.size()];
    if (known.first != file) known = {file, hash_of(file)};
    return known.second;
  }

  /// What is kept of a call: no more, because every call writes one and caches are small.
  struct entry {
    std::uint64_t hash_before = 0;
    std::uint64_t hash_after = 0;
    std::int64_t count = 0;
    std::int64_t step = 0;
    const char* file = "";
    int line = 0;
    int peer = 0;
    collective call = collective::barrier;
    element_kind element = element_kind::byte;
    reduction_kind reduction = reduction_kind::sum;
    std::string tensor;

    std::string text() const {
      request r;
      r.call = call;
      r.inside = call;
      r.inside_count = count;
      r.element = element;
      r.reduction = reduction;
      r.peer = peer;
      r.tensor = tensor;
      r.site = {file, line};
      return described(r);
    }
  };
  using records = std::span<const detail::call_record>;

  static void gather(transport& group, std::string_view axis, std::int64_t step,
                     element_kind element, std::int64_t count, const void* from, void* to) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), count);
    request r;
    r.call = collective::all_gather;
    r.element = element;
    r.from = from;
    r.to = to;
    r.to_counts = counts;
    r.bookkeeping = true;
    r.axis = axis;
    r.tensor = "comparison of calls";
    r.step = step;
    group.run(r);
  }

  /// The first call that differs between rank 0 and any other, as a sentence.
  std::string difference(transport& group, std::string_view axis, std::int64_t step) {
    // Oldest first; before the first call of all, records of no call.
    std::vector<detail::call_record> mine(kept);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::int64_t sequence = sequence_ - kept + 1 + static_cast<std::int64_t>(i);
      if (sequence < 1) continue;
      const entry& e = last_[static_cast<std::size_t>((sequence - 1) % kept)];
      mine[i].sequence = sequence;
      mine[i].hash_before = e.hash_before;
      mine[i].hash_after = e.hash_after;
      mine[i].step = e.step;
      mine[i].set_text(e.text());
    }
    const auto ranks = static_cast<std::size_t>(group.size());
    std::vector<detail::call_record> all(kept * ranks);
    gather(group, axis, step, element_kind::byte,
           kept * static_cast<std::int64_t>(sizeof(detail::call_record)), mine.data(), all.data());
    finding first;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const finding f =
          first_difference(records(all).first(kept), records(all).subspan(rank * kept, kept));
      if (f.sequence < first.sequence) {
        first = f;
        first.rank = static_cast<int>(rank);
      }
    }
    if (first.sequence == forgotten) {
      return joined("the ranks of ", described_group(axis, group.size()),
                    " disagree: the calls of ", "rank 0 and rank ", first.rank,
                    " differ since more than ", kept,
                    " calls; set TENON_CHECK=calls to find the first one");
    }
    const auto text = [](const detail::call_record* record) {
      return record == nullptr ? std::string("nothing after it") : std::string(record->text);
    };
    const auto* shown = first.a != nullptr ? first.a : first.b;
    return joined(disagreement_sentence(axis, group.size(), shown == nullptr ? step : shown->step,
                                        0, text(first.a), first.rank, text(first.b)),
                  " (call ", first.sequence, " of the axis)");
  }

  static constexpr std::int64_t forgotten = -1;
  struct finding {
    std::int64_t sequence = INT64_MAX;
    int rank = 0;
    const detail::call_record* a = nullptr;
    const detail::call_record* b = nullptr;
  };

  static finding first_difference(records a, records b) {
    const auto find = [](records list, std::int64_t sequence) -> const detail::call_record* {
      for (const auto& record : list) {
        if (record.sequence == sequence) return &record;
      }
      return nullptr;
    };
    const std::int64_t last_a = a.back().sequence, last_b = b.back().sequence;
    const std::int64_t oldest = std::max({std::int64_t{1}, last_a - kept + 1, last_b - kept + 1});
    for (std::int64_t sequence = oldest; sequence <= std::max(last_a, last_b); ++sequence) {
      const auto *x = find(a, sequence), *y = find(b, sequence);
      if (x == nullptr && y == nullptr) return {forgotten};
      if (x != nullptr && y != nullptr && x->hash_before != y->hash_before) return {forgotten};
      if (x == nullptr || y == nullptr || x->hash_after != y->hash_after) {
        return {sequence, 0, x, y};
      }
    }
    return {};
  }

  std::int64_t sequence_ = 0;
  std::uint64_t hash_ = 0x7465'6e6f'6eULL;
  std::array<std::pair<const char*, std::uint64_t>, 32> files_{};
  std::array<entry, kept> last_{};
};

}  // namespace tenon::inline v0
