// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0 {

/// The values of the rank's memory as the host may read them: that memory itself where the rank
/// computes on the host, else a copy, for which this waits.
/// Thread-safety: as a std::vector.
template <storable T>
class seen_by_host {
 public:
  explicit seen_by_host(std::span<const T> values) : values_(values) {
    if (device::of_this_rank() == nullptr) return;
    copy_ = buffer<T>(static_cast<std::int64_t>(values.size()), place::host);
    copy_out(copy_.span(), values);
    values_ = copy_.span();
  }
  std::span<const T> values() const noexcept { return values_; }

 private:
  std::span<const T> values_;
  buffer<T> copy_;
};

/// What the host has made, in the rank's memory: the same block where the rank computes on the
/// host, else a copy.
template <storable T>
buffer<T> moved_in(buffer<T> made) {
  if (device::of_this_rank() == nullptr) return made;
  buffer<T> there(made.size());
  copy_in(there.span(), made.span());
  return there;
}

}  // namespace tenon::inline v0
