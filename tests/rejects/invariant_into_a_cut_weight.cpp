// expect: product: an invariant operand meets one in another state on the same axis; move it from invariant to replicated first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/linear.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = stream<replicated>;
#else
using input = stream<invariant>;  // its gradient would lack the sum over the ranks
#endif

using result = output_of<column_parallel<hidden, ffn, axis::tensor>, input>;
