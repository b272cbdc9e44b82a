// expect: mesh: an axis is named twice; name each axis once
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using grid = mesh<axis::data, axis::tensor>;
#else
using grid = mesh<axis::data, axis::data>;
#endif

int ranks = grid({2, 2}).size();
