// expect: any_layer: the gradient of the stream is of another type; a stream is sharded or invariant on every axis
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/any_layer.hpp"

using namespace tenon;

template <class S>
using stream_on = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using stream = stream_on<invariant>;
#else
using stream = stream_on<partial>;
#endif

stream given(any_layer<stream>& layer, const stream& x) { return layer.forward(x).first; }
