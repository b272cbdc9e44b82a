// expect: mesh: the axes are out of order; name them from slow to fast links: pipeline, data, expert, context, tensor
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using grid = mesh<axis::data, axis::tensor>;
#else
using grid = mesh<axis::tensor, axis::data>;
#endif

int ranks = grid({2, 2}).size();
