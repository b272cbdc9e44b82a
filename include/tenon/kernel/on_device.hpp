// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/kernel/team/device_entry.hpp"
#include "tenon/memory/meter.hpp"

namespace tenon::inline v0::kernel::detail {

/// As `for_each_team`, of a program that only devices run: it is not compiled for the host.
template <device_program Program>
void for_each_team_on(device& target, std::int64_t count, const Program& program) {
  if (count > 0 && !shapes_only::active()) {
    device_entry<Program>::run(target, count, launch{}, program);
  }
}

}  // namespace tenon::inline v0::kernel::detail
