// expect: mesh: this axis is not in the mesh; use an axis that the mesh names
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

constexpr mesh<axis::data, axis::tensor> grid({2, 4});

#ifdef CONTROL
int extent = grid.extent<axis::tensor>();
#else
int extent = grid.extent<axis::context>();
#endif
