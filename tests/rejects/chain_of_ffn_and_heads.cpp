// expect: linear: the input does not have the dims to be contracted; name dims that it has
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/chain.hpp"
#include "tenon/layer/linear.hpp"

using namespace tenon;

using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, replicated>>>;

using up = column_parallel<hidden, ffn, axis::tensor>;
#ifdef CONTROL
using down = row_parallel<ffn, hidden, axis::tensor>;
#else
using down = row_parallel<heads, hidden, axis::tensor>;
#endif

using result = output_of<chain<up, down>, stream>;
