// SPDX-License-Identifier: Apache-2.0
// Interleaved, chunks a stage: 2, for all sizes up to 6 stages and 12 microbatches. This file only
// has to compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<interleaved, 1, 2>());
static_assert(documented<interleaved, 2, 2>());
static_assert(documented<interleaved, 3, 2>());
static_assert(documented<interleaved, 4, 2>());
static_assert(documented<interleaved, 5, 2>());
static_assert(documented<interleaved, 6, 2>());

}  // namespace
