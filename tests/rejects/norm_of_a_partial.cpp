// expect: norm: a function that is not linear was given a sum that is still to be done; reduce it first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/normalization.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = stream<invariant>;
#else
using input = stream<partial>;
#endif

using result = output_of<rms_norm<hidden>, input>;
