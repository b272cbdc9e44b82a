// expect: pointwise: a function that is not linear was given a sum that is still to be done; reduce it first
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/chain.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/pointwise.hpp"
#include "tenon/layer/redistributed.hpp"

using namespace tenon;

using stream = tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, invariant>>>;

// The layers before the wrong step and behind it are right.
template <class... Between>
using block = chain<layer_norm<hidden>, redistributed<axis::tensor, replicated>,
                    column_parallel<hidden, ffn, axis::tensor>, pointwise<function::gelu>,
                    row_parallel<ffn, hidden, axis::tensor>, Between..., pointwise<function::gelu>,
                    layer_norm<hidden>, redistributed<axis::tensor, replicated>,
                    column_parallel<hidden, ffn, axis::tensor>>;

#ifdef CONTROL
using result = output_of<block<redistributed<axis::tensor, invariant>>, stream>;
#else
using result = output_of<block<>, stream>;
#endif
