// expect: adamw: the weights are not in an owner placement; every axis must be sharded or invariant
// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/optimizer.hpp"

using namespace tenon;

template <class S>
using weights = tensor<fp32, dims<hidden>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using own = invariant;
#else
using own = replicated;  // each rank would step it by itself
#endif

void step(weights<own>& w, const weights<own>& g,
          adamw_moments<fp32, dims<hidden>, placement<on<axis::tensor, own>>>& moments) {
  adamw_step(w, g, moments, adamw_settings{}, parameter_role::gain, 1e-3, 1);
}
