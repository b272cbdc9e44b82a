// expect: linear: a bias would be added to a sum that is still to be done, once by each rank; reduce first and add the bias after it
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/linear.hpp"

using namespace tenon;

template <class S>
using inner = tensor<fp32, dims<batch, sequence, ffn>, placement<on<axis::tensor, S>>>;

using cut = assignment<carry<axis::tensor, ffn>>;

#ifdef CONTROL
using down = linear<dims<ffn>, dims<hidden>, cut>;
#else
using down = linear<dims<ffn>, dims<hidden>, cut, bias_use::with>;
#endif

using result = output_of<down, inner<sharded<ffn>>>;
