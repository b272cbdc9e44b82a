// expect: sum: one term is a sum that is still to be done, so the other would be added once by each rank
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

using places = constant<on_tensor<invariant>>;
using result = sum_placement_t<stream, tokens, dims<sequence, hidden>, places>;
