// expect: cross_entropy: a function that is not linear was given a sum that is still to be done; reduce it first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/loss.hpp"

using namespace tenon;

template <class S>
using logits = tensor<fp32, dims<batch, sequence, vocabulary>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using input = logits<sharded<vocabulary>>;  // it declares the moves that this needs
#else
using input = logits<partial>;
#endif

using total = bound_to<cross_entropy, input>::total_type;
