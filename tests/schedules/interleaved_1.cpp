// SPDX-License-Identifier: Apache-2.0
// Interleaved, chunks a stage: 1, for all sizes up to 6 stages and 12 microbatches. This file only
// has to compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<interleaved, 1, 1>());
static_assert(documented<interleaved, 2, 1>());
static_assert(documented<interleaved, 3, 1>());
static_assert(documented<interleaved, 4, 1>());
static_assert(documented<interleaved, 5, 1>());
static_assert(documented<interleaved, 6, 1>());

}  // namespace
