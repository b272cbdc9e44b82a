// expect: bias: it would be added to a sum that is still to be done, once by each rank; reduce first and add the bias after it
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/pointwise.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = stream<invariant>;
#else
using input = stream<partial>;
#endif

using result = output_of<bias<dims<hidden>>, input>;
