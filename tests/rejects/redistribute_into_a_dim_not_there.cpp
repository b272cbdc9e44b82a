// expect: redistribute: the dim to cut is not a dim of the tensor; cut one of its dims
// SPDX-License-Identifier: Apache-2.0
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

void program(stream<partial> x) {
#ifdef CONTROL
  redistribute<axis::tensor, sharded<sequence>>(x);
#else
  redistribute<axis::tensor, sharded<ffn>>(x);
#endif
}
