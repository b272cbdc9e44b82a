// expect: norm: the dim to be normalised is cut by an axis, and a norm reads the whole of it; move that axis to another dim first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/normalization.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = stream<sharded<sequence>>;
#else
using input = stream<sharded<hidden>>;
#endif

using result = output_of<layer_norm<hidden>, input>;
