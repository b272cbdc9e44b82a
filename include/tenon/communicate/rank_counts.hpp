// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::inline v0 {

/// A count for each rank of a group, zero at first. Counts of few ranks are held in place: a call
/// of a small message would notice an allocation.
/// Thread-safety: a value.
class rank_counts {
 public:
  explicit rank_counts(int ranks) : size_(static_cast<std::size_t>(ranks)) {
    if (size_ > few_.size()) many_.resize(size_);
  }

  std::int64_t& operator[](int rank) noexcept { return data()[static_cast<std::size_t>(rank)]; }
  std::int64_t* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  const std::int64_t* data() const noexcept { return many_.empty() ? few_.data() : many_.data(); }
  std::size_t size() const noexcept { return size_; }

  operator std::span<const std::int64_t>() const noexcept { return {data(), size_}; }  // NOLINT

 private:
  std::size_t size_;
  std::array<std::int64_t, 8> few_{};
  std::vector<std::int64_t> many_;
};

}  // namespace tenon::inline v0
