// SPDX-License-Identifier: Apache-2.0
// The backward in two, for all sizes up to 6 stages and 12 microbatches. This file only has to
// compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<zero_bubble, 1>());
static_assert(documented<zero_bubble, 2>());
static_assert(documented<zero_bubble, 3>());
static_assert(documented<zero_bubble, 4>());
static_assert(documented<zero_bubble, 5>());
static_assert(documented<zero_bubble, 6>());

}  // namespace
