// expect: redistribute: another axis cuts the same dim inside this one; move that axis first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;

using tokens =
    tensor<fp32, dims<batch, sequence>,
           placement<on<axis::context, sharded<sequence>>, on<axis::tensor, sharded<sequence>>>>;

void program(tokens x) {
#ifdef CONTROL
  redistribute<axis::tensor, replicated>(x);
#else
  redistribute<axis::context, replicated>(x);
#endif
}
