// expect: product: one axis cuts two different dims of the operands; cut the same dim in both, or make one operand replicated
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using attended = dims<batch, heads, head_width>;

#ifdef CONTROL
using weight = on_tensor<sharded<heads>>;
#else
using weight = on_tensor<sharded<ffn>>;  // the weight of the other layer
#endif

using result = product_placement_t<attended, on_tensor<sharded<heads>>,
                                   dims<heads, head_width, ffn>, weight, dims<batch, ffn>>;
