// expect: parameter: the use cannot be made from the owner placement; own what the use cuts, and the rest as invariant
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/parameter.hpp"

using namespace tenon;

template <class S>
using on_tensor = placement<on<axis::tensor, S>>;

#ifdef CONTROL
using own = on_tensor<sharded<ffn>>;
#else
using own = on_tensor<sharded<hidden>>;
#endif

using use = parameter<fp32, dims<hidden, ffn>, on_tensor<sharded<ffn>>, own>::use_type;
