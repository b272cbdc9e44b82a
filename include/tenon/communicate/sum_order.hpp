// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tenon::inline v0 {

/// The order in which the ranks' values are added. `any`: what the transport does best; the last
/// bits of a result may depend on the length of the buffer. `fixed`: in the order of the ranks, so
/// that a result depends on its own terms alone.
enum class sum_order : std::uint8_t { any, fixed };

}  // namespace tenon::inline v0
