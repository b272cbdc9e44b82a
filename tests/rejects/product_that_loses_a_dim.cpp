// expect: product: a dim of one operand alone is not in the result; only a dim of both is summed over
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;

#ifdef CONTROL
using result_dims = inner;
#else
using result_dims = dims<batch, ffn>;  // where did the sequence go?
#endif

using result = product_placement_t<stream, on_tensor<sharded<sequence>>, dims<hidden, ffn>,
                                   on_tensor<replicated>, result_dims>;
