// expect: placement: this axis is not named; use an axis of the tensor's mesh
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using tokens = placement<on<axis::context, sharded<sequence>>, on<axis::tensor, replicated>>;
#else
using tokens = placement<on<axis::tensor, replicated>>;
#endif

using held = state_on_t<tokens, axis::context>;
