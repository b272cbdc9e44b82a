// expect: product: a dim of both operands is cut in only one of them; cut it in both
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;

#ifdef CONTROL
using weight = on_tensor<sharded<hidden>>;
#else
using weight = on_tensor<replicated>;  // all of hidden, and the tokens have a piece of it
#endif

using result =
    product_placement_t<stream, on_tensor<sharded<hidden>>, dims<hidden, ffn>, weight, inner>;
