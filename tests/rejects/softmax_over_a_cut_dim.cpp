// expect: softmax: the dim to be normalised is cut by an axis, and a softmax reads the whole of it
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/normalization.hpp"

using namespace tenon;

template <class S>
using logits = tensor<fp32, dims<batch, sequence, vocabulary>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = logits<sharded<sequence>>;
#else
using input = logits<sharded<vocabulary>>;
#endif

using result = output_of<softmax<vocabulary>, input>;
