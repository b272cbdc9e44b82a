// expect: product: an operand is a sum that is still to be done and the other is not replicated; reduce it first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;

#ifdef CONTROL
using tokens = on_tensor<replicated>;
#else
using tokens = on_tensor<partial>;
#endif

using result =
    product_placement_t<stream, tokens, dims<hidden, ffn>, on_tensor<sharded<ffn>>, inner>;
