// SPDX-License-Identifier: Apache-2.0
// One forward, one backward, for all sizes up to 6 stages and 12 microbatches. This file only has
// to compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<one_forward_one_backward, 1>());
static_assert(documented<one_forward_one_backward, 2>());
static_assert(documented<one_forward_one_backward, 3>());
static_assert(documented<one_forward_one_backward, 4>());
static_assert(documented<one_forward_one_backward, 5>());
static_assert(documented<one_forward_one_backward, 6>());

}  // namespace
