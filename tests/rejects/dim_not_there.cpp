// expect: layout: an axis cuts a dim that the tensor does not have; cut one of its dims
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using cut = sharded<hidden>;
#else
using cut = sharded<heads>;  // the stream has none
#endif

constexpr layout<dims<batch, sequence, hidden>, placement<on<axis::tensor, cut>>> where;
