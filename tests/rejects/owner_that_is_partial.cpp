// expect: parameter: the owner placement is not sharded or invariant on every axis; each element must belong to one rank of each axis, or to all alike
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/parameter.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;

#ifdef CONTROL
using own = on_tensor<invariant>;
#else
using own = on_tensor<partial>;
#endif

using use = parameter<fp32, dims<hidden>, on_tensor<replicated>, own>::use_type;
