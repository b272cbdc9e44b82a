// expect: adamw: the gradient is placed otherwise than the moments; bring it to the owner placement by a move that you name
// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/optimizer.hpp"

using namespace tenon;

using weight = dims<hidden, ffn>;
template <class S>
using weights = tensor<fp32, weight, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using gradient = weights<sharded<ffn>>;
#else
using gradient = weights<sharded<hidden>>;
#endif

void step(weights<sharded<ffn>>& w, const gradient& g,
          adamw_moments<fp32, weight, placement<on<axis::tensor, sharded<ffn>>>>& moments) {
  adamw_step(w, g, moments, adamw_settings{}, parameter_role::matrix, 1e-3, 1);
}
