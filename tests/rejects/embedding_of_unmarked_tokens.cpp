// expect: embedding: the input is not a constant tensor of tokens; mark its placement: constant<placement<...>>
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/embedding.hpp"

using namespace tenon;

using whole = placement<on<axis::tensor, invariant>>;

#ifdef CONTROL
using placed = constant<whole>;
#else
using placed = whole;
#endif

using tokens = tensor<std::int32_t, dims<batch, sequence>, placed>;
using result = output_of<embedding<fp32, "embedding", vocabulary, hidden>, tokens>;
