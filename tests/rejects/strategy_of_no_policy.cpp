// expect: strategy: one of the types given is no policy; a policy has a kind and a set
// SPDX-License-Identifier: Apache-2.0
#include "tenon/parallel/strategy.hpp"

using namespace tenon;

#ifdef CONTROL
using plan = strategy<tensor_parallel<2, split_sequence>>;
#else
using plan = strategy<tensor_parallel<2>, split_sequence>;  // an option, and given as a policy
#endif

constexpr run_strategy run = plan::values();
