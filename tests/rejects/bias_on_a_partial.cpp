// expect: sum: one term is a sum that is still to be done, so the other would be added once by each rank; reduce it first: redistributed<axis, invariant> or redistributed<axis, sharded<dim>>
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

using result = sum_placement_t<stream, tokens, dims<hidden>, on_tensor<replicated>>;
