// expect: attention: the sequence is cut by an axis, and attention reads all keys; exchange it first: redistributed<axis, replicated>
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/attention.hpp"

using namespace tenon;

template <class S>
using queries =
    tensor<fp32, dims<batch, sequence, heads, head_width>, placement<on<axis::tensor, S>>>;
template <class S>
using keys =
    tensor<fp32, dims<batch, sequence, kv_heads, head_width>, placement<on<axis::tensor, S>>>;
template <class S, class T>
using input = std::tuple<queries<S>, keys<T>, keys<T>>;

#ifdef CONTROL
using result = output_of<causal_attention, input<sharded<heads>, sharded<kv_heads>>>;
#else
using result = output_of<causal_attention, input<sharded<sequence>, sharded<sequence>>>;
#endif
