// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/layer/assignment.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/parallel/run_strategy.hpp"
#include "tenon/placement/placement.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

/// The state of the stream between blocks on the tensor axis: whole, or its sequence cut there.
/// Source of the second: V. Korthikanti and others, Reducing activation recomputation in large
/// transformer models, 2022.
namespace stream_state {

using whole = invariant;
using split_sequence = sharded<sequence>;

}  // namespace stream_state

/// The mesh of one stage of a decoder.
using decoder_mesh = mesh<axis::data, axis::expert, axis::context, axis::tensor>;

/// The mesh of one stage, of a strategy that `laid_out` has filled in, seen from `rank` of all
/// ranks.
constexpr decoder_mesh mesh_of(const run_strategy& run, int rank) {
  return decoder_mesh({run.data, run.expert, run.context, run.tensor},
                      rank % (run.data * run.expert * run.context * run.tensor));
}

/// Which axes carry which dims of a decoder: the one place where its parallelism is written down.
/// To spread a decoder in another way, write another struct with these members.
///
///   everywhere       batch on data and expert, sequence on context
///   between blocks   on tensor invariant, or the sequence once more
///   inside blocks    heads, kv_heads, ffn and vocabulary on tensor, experts on expert
///
/// Attention exchanges what contexts must see of one another (see `causal_attention`). To what
/// experts do not own, `expert` is one more data axis. The pipeline is no dim: its stages
/// have such a mesh each.
template <class StreamState>
struct decoder_placements {
  using mesh_type = decoder_mesh;

  /// Dims of weights that the axes cut.
  using cuts = assignment<carry<axis::expert, experts>,
                          carry<axis::tensor, heads, kv_heads, ffn, vocabulary>>;

  /// Before a block's products, and after them.
  using enter = redistributed<axis::tensor, replicated>;
  using leave = redistributed<axis::tensor, StreamState>;

  template <class OnTensor>
  using with_tensor = placement<on<axis::data, sharded<batch>>, on<axis::expert, sharded<batch>>,
                                on<axis::context, sharded<sequence>>, on<axis::tensor, OnTensor>>;
  using stream = with_tensor<StreamState>;
  /// Tokens and targets are the same on all ranks of the tensor axis.
  using tokens = constant<with_tensor<invariant>>;

  template <element E>
  using stream_type = tensor<E, dims<batch, sequence, hidden>, stream>;
  using tokens_type = tensor<std::int32_t, dims<batch, sequence>, tokens>;
};

}  // namespace tenon::inline v0
