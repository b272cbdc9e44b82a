// expect: gradient: a maximum or log_sum_exp over ranks has no gradient; only the sum has
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using held = partial;
#else
using held = partial_of<reduction::maximum>;
#endif

gradient_placement<placement<on<axis::tensor, held>>> gradient;
