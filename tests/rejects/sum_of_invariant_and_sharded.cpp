// expect: sum: an invariant term meets one in another state on the same axis; bring both to one state by a move that you name
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;

#ifdef CONTROL
using residual = on_tensor<sharded<sequence>>;
#else
using residual = on_tensor<invariant>;
#endif

using result = sum_placement_t<stream, on_tensor<sharded<sequence>>, stream, residual>;
