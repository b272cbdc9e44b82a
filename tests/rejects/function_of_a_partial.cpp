// expect: pointwise: a function that is not linear was given a sum that is still to be done; reduce it first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/pointwise.hpp"

using namespace tenon;

template <class S>
using inner = tensor<fp32, dims<batch, sequence, ffn>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = inner<replicated>;
#else
using input = inner<partial>;  // gelu(a) + gelu(b) is not gelu(a + b)
#endif

using result = output_of<pointwise<function::gelu>, input>;
