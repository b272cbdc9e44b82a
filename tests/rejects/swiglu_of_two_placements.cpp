// expect: swiglu: gate and up are of different types; place both alike
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/feed_forward.hpp"

using namespace tenon;

template <class S>
using inner = tensor<fp32, dims<batch, sequence, ffn>, placement<on<axis::tensor, S>>>;

#ifdef CONTROL
using up = inner<sharded<ffn>>;
#else
using up = inner<replicated>;
#endif

using result = output_of<swiglu, std::tuple<inner<sharded<ffn>>, up>>;
