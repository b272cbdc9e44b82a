// expect: mesh: an axis stands beside one of its own parts; name the flat axis alone, or its two parts
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using grid = mesh<axis::tensor_row, axis::tensor_column>;
#else
using grid = mesh<axis::tensor, axis::tensor_column>;
#endif

int ranks = grid({2, 2}).size();
