// expect: linear: the dims to be contracted are not the last dims of the input; order them so that they are
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/linear.hpp"

using namespace tenon;

#ifdef CONTROL
using input = dims<batch, sequence, heads, head_width>;
#else
using input = dims<batch, heads, sequence, head_width>;
#endif

using result = output_of<linear<dims<heads, head_width>, dims<hidden>>,
                         tensor<fp32, input, placement<on<axis::tensor, sharded<heads>>>>>;
