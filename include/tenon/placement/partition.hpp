// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// A run of indices [begin, begin + size).
struct region {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  constexpr std::int64_t end() const noexcept { return begin + size; }
  friend constexpr bool operator==(const region&, const region&) = default;
};

/// What two regions share; of size zero when they share nothing.
constexpr region intersection(region a, region b) noexcept {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max<std::int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

/// The balanced piece `part` of `extent` indices: the first extent % parts pieces hold one more.
constexpr region balanced_region(std::int64_t extent, int parts, int part) noexcept {
  const std::int64_t each = extent / parts;
  const std::int64_t more = extent % parts;
  return {part * each + std::min<std::int64_t>(part, more), each + (part < more ? 1 : 0)};
}

/// How a dim of `extent` indices is divided over the `parts` ranks of an axis. Balanced unless said
/// otherwise: the first extent % parts ranks hold one index more, and ranks may hold none. Other
/// partitions carry their regions; where regions overlap, the tensor is `spread`.
/// Thread-safety: a value; const members may be called at once.
class partition {
 public:
  constexpr partition() = default;

  /// 5 over 4 are 2, 1, 1, 1. Throws bad_request for a negative extent or no parts.
  static constexpr partition balanced(std::int64_t extent, int parts) {
    if (extent < 0 || parts < 1) {
      require(false, "partition: ", extent, " indices cannot be divided into ", parts,
              " parts; use an extent of zero or more and at least one part");
    }
    partition p;
    p.extent_ = extent;
    p.parts_ = parts;
    return p;
  }

  /// Contiguous regions with sizes in proportion to the weights (ranks of unequal speed).
  static constexpr partition weighted(std::int64_t extent, const std::vector<double>& weights) {
    double total = 0;
    for (double weight : weights) total += weight;
    require(!weights.empty() && total > 0,
            "partition: the weights sum to nothing; use positive ones");
    std::vector<region> regions;
    double before = 0;
    std::int64_t begin = 0;
    for (double weight : weights) {
      before += weight;
      const auto end = std::min(
          extent, static_cast<std::int64_t>(static_cast<double>(extent) * (before / total) + 0.5));
      regions.push_back({begin, end - begin});
      begin = end;
    }
    return of_regions(extent, std::move(regions));
  }

  /// The regions given, one a rank. They may overlap; each must lie within the extent.
  static constexpr partition of_regions(std::int64_t extent, std::vector<region> regions) {
    require(!regions.empty(), "partition: no region was given; give one for each rank");
    for (const region& r : regions) {
      require(r.begin >= 0 && r.size >= 0 && r.end() <= extent, "partition: a region of ", r.size,
              " at ", r.begin, " does not lie within ", extent);
    }
    partition p;
    p.extent_ = extent;
    p.parts_ = static_cast<int>(regions.size());
    bool same = true;
    for (int i = 0; i < p.parts_; ++i)
      same = same && p.of(i) == regions[static_cast<std::size_t>(i)];
    if (!same) p.regions_ = std::move(regions);
    return p;
  }

  constexpr std::int64_t extent() const noexcept { return extent_; }
  constexpr int parts() const noexcept { return parts_; }
  constexpr bool is_balanced() const noexcept { return regions_.empty(); }

  constexpr region of(int part) const noexcept {
    if (!regions_.empty()) return regions_[static_cast<std::size_t>(part)];
    return balanced_region(extent_, parts_, part);
  }

  /// True when every index belongs to exactly one part and the parts are in order.
  constexpr bool covers_once() const noexcept {
    if (regions_.empty()) return true;
    std::int64_t next = 0;
    for (const region& r : regions_) {
      if (r.size == 0) continue;
      if (r.begin != next) return false;
      next = r.end();
    }
    return next == extent_;
  }

  friend constexpr bool operator==(const partition&, const partition&) = default;

 private:
  std::int64_t extent_ = 0;
  int parts_ = 1;
  std::vector<region> regions_;
};

}  // namespace tenon::inline v0
