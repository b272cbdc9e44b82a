// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tenon/base/check.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/placement/partition.hpp"

namespace tenon::inline v0 {

/// In which order the tokens of a sequence lie on the ranks that share it.
enum class token_order_kind : std::uint8_t {
  zigzag,      ///< each ring member has a piece from the front and one from the back
  contiguous,  ///< each has one piece
};

constexpr std::string_view name_of(token_order_kind kind) noexcept {
  return kind == token_order_kind::zigzag ? "zigzag" : "contiguous";
}

/// Positions of rows that follow one another in memory: at most two runs of neighbours.
struct position_runs {
  std::int64_t begin = 0;
  std::int64_t first_size = std::numeric_limits<std::int64_t>::max();  ///< rows of the first run
  std::int64_t second_begin = 0;

  /// The position of row i.
  TENON_BOTH constexpr std::int64_t at(std::int64_t i) const noexcept {
    return i < first_size ? begin + i : second_begin + (i - first_size);
  }
  /// How many of `rows` rows are in the first run.
  constexpr std::int64_t in_first(std::int64_t rows) const noexcept {
    return std::min(first_size, rows);
  }
  friend constexpr bool operator==(const position_runs&, const position_runs&) = default;
};

/// Where the tokens of a sequence lie. The indices of the dim `sequence` are the *stored* order,
/// cut into balanced neighbouring pieces over the C ranks of the context axis; this says which
/// position of the text each stored index has. H ranks that follow one another are a ring member,
/// and there are R = C / H.
///
///   8 tokens, R = 2, contiguous    0 1 2 3 | 4 5 6 7
///                    zigzag        0 1 6 7 | 2 3 4 5
///
/// Zigzag: of the n indices of a member the first ceil(n/2) are the next positions from the front,
/// in the order of the members, the rest the next ones from there on, in the reverse order. Under a
/// causal mask all members then have equal work where 2 C divides the length.
/// Source: D. Gu and others, LoongTrain, 2024, section 4 (zigzag placement).
/// Thread-safety: a value.
class token_order {
 public:
  /// One rank: every index is its position.
  constexpr token_order() = default;
  /// Throws bad_request unless there are ranks and `heads_parallel` divides them.
  constexpr token_order(token_order_kind kind, std::int64_t length, int context,
                        int heads_parallel = 1)
      : kind_(kind), length_(length), context_(context), heads_(heads_parallel) {
    if (length < 0 || context < 1 || heads_parallel < 1 || context % heads_parallel != 0) {
      require(false, "token_order: a sequence of ", length, " over ", context, " ranks, ",
              heads_parallel, " of them a ring member; use a length of zero or more and a number ",
              "of ranks that is a multiple of those of a member");
    }
  }

  constexpr std::int64_t length() const noexcept { return length_; }
  constexpr int members() const noexcept { return context_ / heads_; }

  /// The stored indices of a rank of the context axis, and of a ring member.
  constexpr region piece(int rank) const noexcept {
    return balanced_region(length_, context_, rank);
  }
  constexpr region member(int m) const noexcept {
    const region first = piece(m * heads_);
    return {first.begin, piece(m * heads_ + heads_ - 1).end() - first.begin};
  }

  /// The positions of stored indices. Throws bad_request when these belong to several ring members
  /// that are not in the order of the positions.
  constexpr position_runs runs_of(region stored) const {
    if (is_identity() || stored.size == 0) return {stored.begin};
    const int m = member_of(stored.begin);
    if (stored.end() > member(m).end()) {
      require(false, "token_order: tokens ", stored.begin, " to ", stored.end(),
              " of a sequence in zigzag order lie on several ranks; keep the sequence cut on the ",
              "context axis, or use the contiguous order");
    }
    return part_of(m, stored);
  }
  constexpr position_runs runs_of_member(int m) const noexcept {
    if (is_identity()) return {member(m).begin};
    return part_of(m, member(m));
  }

  constexpr std::int64_t position_of(std::int64_t stored) const {
    return runs_of({stored, 1}).begin;
  }
  constexpr std::int64_t stored_of(std::int64_t position) const noexcept {
    if (is_identity()) return position;
    std::int64_t begin = 0;
    for (int m = 0; m < members(); ++m) {
      const std::int64_t ahead = front_size(member(m).size);
      if (position < begin + ahead) return member(m).begin + position - begin;
      begin += ahead;
    }
    for (int m = members() - 1; m >= 0; --m) {
      const region own = member(m);
      const std::int64_t ahead = front_size(own.size);
      if (position < begin + own.size - ahead) return own.begin + ahead + position - begin;
      begin += own.size - ahead;
    }
    return -1;
  }

  friend constexpr bool operator==(const token_order&, const token_order&) = default;

 private:
  struct begins {
    std::int64_t front;
    std::int64_t back;
  };

  constexpr bool is_identity() const noexcept {
    return kind_ == token_order_kind::contiguous || members() == 1;
  }
  static constexpr std::int64_t front_size(std::int64_t size) noexcept { return size - size / 2; }

  constexpr int member_of(std::int64_t stored) const noexcept {
    int m = 0;
    while (m + 1 < members() && stored >= member(m).end()) ++m;
    return m;
  }
  // The first position of a member's front piece and of its back piece.
  constexpr begins begins_of(int m) const noexcept {
    begins found{0, 0};
    for (int k = 0; k < members(); ++k) {
      const std::int64_t size = member(k).size;
      if (k < m) found.front += front_size(size);
      found.back += front_size(size) + (k > m ? size - front_size(size) : 0);
    }
    return found;
  }
  constexpr position_runs part_of(int m, region stored) const noexcept {
    const region own = member(m);
    const auto [front, back] = begins_of(m);
    const std::int64_t ahead = front_size(own.size);
    const std::int64_t from = stored.begin - own.begin;
    if (from >= ahead) return {back + from - ahead};
    if (from + stored.size <= ahead || back == front + ahead) return {front + from};
    return {front + from, ahead - from, back};
  }

  token_order_kind kind_ = token_order_kind::contiguous;
  std::int64_t length_ = std::numeric_limits<std::int64_t>::max();
  int context_ = 1;
  int heads_ = 1;
};

}  // namespace tenon::inline v0
