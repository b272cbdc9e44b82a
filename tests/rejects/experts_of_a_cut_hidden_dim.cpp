// expect: mixture_of_experts: the hidden dim is cut by an axis, and the router reads the whole of it; move that axis to another dim first
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
using result = output_of<experts_of<on_expert>, stream<sharded<batch>, sharded<hidden>>>;
#endif
