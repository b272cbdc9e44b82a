// expect: gradient: this is no placement of values with a gradient; a constant has none
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

using angles = placement<on<axis::tensor, invariant>>;

#ifdef CONTROL
using gradient = gradient_placement<angles>;
#else
using gradient = gradient_placement<constant<angles>>;
#endif
