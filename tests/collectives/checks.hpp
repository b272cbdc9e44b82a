// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every collective against a serial loop, for simulated ranks (here) and for MPI (tests/ranks).
// Checks throw: Boost.Test's own may not be used from many threads.

#include <cstdint>
#include <vector>

#include "tenon/communicate/collectives.hpp"

namespace tenon_test {

using namespace tenon;
using counts = std::vector<std::int64_t>;

/// Throws unless it holds, naming what and the two numbers.
inline void expect(bool holds, const char* what, std::int64_t a = 0, std::int64_t b = 0) {
  if (!holds) throw error(error_kind::failed, joined("expected: ", what, " (", a, ", ", b, ")"));
}

/// All of it; compiled once, in checks.cpp, for the tests of all transports.
void check_every_collective(communicator& group, std::int64_t length);

}  // namespace tenon_test
