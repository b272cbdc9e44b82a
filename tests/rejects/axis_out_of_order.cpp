// expect: placement: the axes are out of order; name them as the mesh does: pipeline, data, expert, context, tensor
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using tokens = placement<on<axis::data, sharded<batch>>, on<axis::tensor, replicated>>;
#else
using tokens = placement<on<axis::tensor, replicated>, on<axis::data, sharded<batch>>>;
#endif

std::string text = tokens::text();
