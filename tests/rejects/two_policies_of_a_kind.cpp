// SPDX-License-Identifier: Apache-2.0
// expect: strategy: two tensor policies were given; keep one
#include "tenon/parallel/strategy.hpp"

using namespace tenon;

#ifdef CONTROL
using plan = strategy<tensor_parallel<2>, data_parallel<2>>;
#else
using plan = strategy<tensor_parallel<2>, data_parallel<2>, tensor_parallel<4, split_sequence>>;
#endif

constexpr run_strategy run = plan::values();
