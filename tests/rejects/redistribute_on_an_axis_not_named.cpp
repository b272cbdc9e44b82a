// expect: redistribute: the tensor does not name this axis; use an axis of its mesh
// SPDX-License-Identifier: Apache-2.0
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;

template <class S>
using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, S>>>;

void program(stream<sharded<sequence>> x) {
#ifdef CONTROL
  redistribute<axis::tensor, replicated>(x);
#else
  redistribute<axis::context, replicated>(x);
#endif
}
