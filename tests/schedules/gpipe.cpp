// SPDX-License-Identifier: Apache-2.0
// All forwards, then all backwards, for all sizes up to 6 stages and 12 microbatches. This file
// only has to compile.
#include "every_size.hpp"

namespace {

using schedules::documented;
using enum tenon::pipeline_schedule;

static_assert(documented<gpipe, 1>());
static_assert(documented<gpipe, 2>());
static_assert(documented<gpipe, 3>());
static_assert(documented<gpipe, 4>());
static_assert(documented<gpipe, 5>());
static_assert(documented<gpipe, 6>());

}  // namespace
