// expect: pointwise: a function that is not linear was given a sum that is still to be done; reduce it first: redistributed<axis, replicated> or redistributed<axis, sharded<dim>>
// SPDX-License-Identifier: Apache-2.0
// The line of the README that does not compile.
#include "tenon/layer/pointwise.hpp"
#include "tenon/layer/redistributed.hpp"

using namespace tenon;

#ifdef CONTROL
using terms = tensor<fp32, dims<sequence, hidden>, placement<on<axis::tensor, replicated>>>;
#else
using terms = tensor<fp32, dims<sequence, hidden>, placement<on<axis::tensor, partial>>>;
#endif

// clang-format off
using y = output_of<pointwise<function::gelu>, terms>;  // refused
// clang-format on
