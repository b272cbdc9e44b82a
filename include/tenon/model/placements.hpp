// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/layer/assignment.hpp"
#include "tenon/layer/cut_normalization.hpp"
#include "tenon/layer/grid_embedding.hpp"
#include "tenon/layer/grid_linear.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/parallel/run_strategy.hpp"
#include "tenon/placement/placement.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

/// The state of the stream between blocks on the tensor axis: whole, or its sequence cut there, or
/// cut in two directions.
/// Source of the second: V. Korthikanti and others, Reducing activation recomputation in large
/// transformer models, 2022.
namespace stream_state {

using whole = invariant;
using split_sequence = sharded<sequence>;
/// The tensor axis is a grid of rows and columns: `decoder_placements<stream_state::grid>`.
struct grid {};

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
  static constexpr bool carries_experts = true;
  static constexpr mesh_type mesh_of(const run_strategy& run, int rank) {
    return tenon::mesh_of(run, rank);
  }

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

/// The mesh of one stage of a decoder whose tensor axis is a grid of ranks.
using decoder_grid_mesh =
    mesh<axis::data, axis::expert, axis::context, axis::tensor_row, axis::tensor_column>;

/// A decoder on a grid of Q x Q ranks: nothing large is there twice.
///
///   everywhere       batch on data, expert and tensor_row, sequence on context, and hidden, heads,
///                    kv_heads, ffn or vocabulary on tensor_column
///   weights          the contracted dim on tensor_row, the new one on tensor_column
///
/// Every rank has whole sequences and some heads, so that attention is local to it.
/// Source: Q. Xu and others, An efficient 2D method for training super-large deep learning models
/// (Optimus), 2021.
template <>
struct decoder_placements<stream_state::grid> {
  using mesh_type = decoder_grid_mesh;
  static constexpr bool carries_experts = false;
  static constexpr mesh_type mesh_of(const run_strategy& run, int rank) {
    const int side = run.tensor_grid;
    return mesh_type({run.data, run.expert, run.context, side, side},
                     rank % (run.data * run.expert * run.context * side * side));
  }

  using cuts = grid_assignment<axis::tensor_row, axis::tensor_column, hidden, heads, kv_heads, ffn,
                               vocabulary>;

  /// Products take and give the stream as it is.
  using enter = redistributed<axis::tensor_column, sharded<hidden>>;
  using leave = enter;

  template <class OnColumn>
  using with_column =
      placement<on<axis::data, sharded<batch>>, on<axis::expert, sharded<batch>>,
                on<axis::context, sharded<sequence>>, on<axis::tensor_row, sharded<batch>>,
                on<axis::tensor_column, OnColumn>>;
  using stream = with_column<sharded<hidden>>;
  using tokens = constant<with_column<invariant>>;

  template <element E>
  using stream_type = tensor<E, dims<batch, sequence, hidden>, stream>;
  using tokens_type = tensor<std::int32_t, dims<batch, sequence>, tokens>;
};

}  // namespace tenon::inline v0
