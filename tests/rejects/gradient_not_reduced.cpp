// expect: adamw: the gradient is a sum over ranks that is still to be done; reduce it first: redistribute<axis, invariant>(gradient)
// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/optimizer.hpp"

using namespace tenon;

template <class S>
using weights = tensor<fp32, dims<hidden>, placement<on<axis::data, S>>>;

#ifdef CONTROL
using gradient = weights<invariant>;
#else
using gradient = weights<partial>;  // of one rank's sequences alone
#endif

void step(weights<invariant>& w, const gradient& g,
          adamw_moments<fp32, dims<hidden>, placement<on<axis::data, invariant>>>& moments) {
  adamw_step(w, g, moments, adamw_settings{}, parameter_role::gain, 1e-3, 1);
}
