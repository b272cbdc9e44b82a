// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/base/host_device.hpp"
#include "tenon/kernel/team/arrays.hpp"

namespace tenon::inline v0::kernel::detail {

/// to[0 .. n-1] = from[0 .. n-1], bit by bit; the two do not overlap.
template <class Team, class T>
TENON_BOTH void copy_array(Team& team, std::int64_t n, T* to, const T* from) {
  if constexpr (Team::size() == 1) {
    if (n > 0) std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    constexpr std::int64_t each = 16 / sizeof(T);
    const std::int64_t packs = starts_at_sixteen(to) && starts_at_sixteen(from) ? n / each : 0;
    team.for_each(packs, [=](std::int64_t p) {
      store_sixteen(to + p * each, load_sixteen(from + p * each));
    });
    const std::int64_t rest = packs * each;
    team.for_each(n - rest, [=](std::int64_t i) { to[rest + i] = from[rest + i]; });
  }
}

}  // namespace tenon::inline v0::kernel::detail
