// expect: redistribute: no move leads from the tensor's state to the one asked for; see the table of moves
// SPDX-License-Identifier: Apache-2.0
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;

using rows = tensor<fp32, dims<batch, sequence>,
                    placement<on<axis::tensor, partial_of<reduction::maximum>>>>;

void program(rows x) {
#ifdef CONTROL
  redistribute<axis::tensor, replicated>(x);
#else
  redistribute<axis::tensor, sharded<sequence>>(x);
#endif
}
