// expect: placement: an axis is named twice; give each axis one state
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using tokens = placement<on<axis::data, sharded<batch>>, on<axis::tensor, replicated>>;
#else
using tokens = placement<on<axis::data, sharded<batch>>, on<axis::data, replicated>>;
#endif

std::string text = tokens::text();
