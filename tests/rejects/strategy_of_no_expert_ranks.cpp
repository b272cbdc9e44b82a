// expect: expert_parallel: the extent is not positive; give 1 or more ranks
// SPDX-License-Identifier: Apache-2.0
#include "tenon/parallel/strategy.hpp"

using namespace tenon;

#ifdef CONTROL
using plan = strategy<data_parallel<2>, expert_parallel<1>>;
#else
using plan = strategy<data_parallel<2>, expert_parallel<0>>;
#endif

constexpr run_strategy run = plan::values();
