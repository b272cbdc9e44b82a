// expect: product: an invariant operand meets one in another state on the same axis; move it from invariant to replicated first, its backward is the sum over the ranks
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
using tokens = on_tensor<invariant>;  // each rank multiplies it with another piece
#endif

using result =
    product_placement_t<stream, tokens, dims<hidden, ffn>, on_tensor<sharded<ffn>>, inner>;
