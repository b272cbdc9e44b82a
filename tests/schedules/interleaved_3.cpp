// SPDX-License-Identifier: Apache-2.0
// Interleaved, chunks a stage: 3, for all sizes up to 6 stages and 12 microbatches. This file only
// has to compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<interleaved, 1, 3>());
static_assert(documented<interleaved, 2, 3>());
static_assert(documented<interleaved, 3, 3>());
static_assert(documented<interleaved, 4, 3>());
static_assert(documented<interleaved, 5, 3>());
static_assert(documented<interleaved, 6, 3>());

}  // namespace
