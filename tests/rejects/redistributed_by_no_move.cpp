// expect: redistributed: no move leads from the input's state to the one asked for; see the table of moves
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/redistributed.hpp"

using namespace tenon;

using tokens = tensor<fp32, dims<batch, sequence>, placement<on<axis::tensor, replicated>>>;

#ifdef CONTROL
using result = output_of<redistributed<axis::tensor, partial>, tokens>;
#else
using result = output_of<redistributed<axis::tensor, partial_of<reduction::maximum>>, tokens>;
#endif
