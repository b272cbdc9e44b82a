// expect: mixture_of_experts: the axis that carries the experts does not cut the tokens, so all its ranks would send the same; cut the batch or the sequence on it
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/mixture_of_experts.hpp"

using namespace tenon;

template <class OnExpert, class OnTensor, class Dims = dims<batch, sequence, hidden>>
using stream =
    tensor<fp32, Dims, placement<on<axis::expert, OnExpert>, on<axis::tensor, OnTensor>>>;
template <class... Carries>
using experts_of = mixture_of_experts<expert_form::gelu, assignment<Carries...>>;
using on_expert = carry<axis::expert, experts>;
using on_tensor = carry<axis::tensor, ffn>;

#ifdef CONTROL
using result = output_of<experts_of<on_expert, on_tensor>, stream<sharded<batch>, replicated>>;
#else
using result = output_of<experts_of<on_expert, on_tensor>, stream<replicated, replicated>>;
#endif
