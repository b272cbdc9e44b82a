// expect: product: the operands name different axes; both must name every axis of one mesh
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;

#ifdef CONTROL
using weight = placement<on<axis::tensor, replicated>>;
#else
using weight = placement<on<axis::data, replicated>>;
#endif

using result = product_placement_t<stream, on_tensor<replicated>, dims<hidden, ffn>, weight, inner>;
