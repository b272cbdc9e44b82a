// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/layer/assignment.hpp"
#include "tenon/layer/redistributed.hpp"
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

/// Which axes carry which dims of a decoder: the one place where its parallelism is written down.
/// To spread a decoder in another way, write another struct with these members.
///
///   between blocks   batch on data; on tensor invariant, or the sequence
///   inside blocks    batch on data; heads, kv_heads, ffn and vocabulary on tensor
template <class StreamState>
struct decoder_placements {
  using mesh_type = mesh<axis::data, axis::tensor>;

  /// Dims of weights that the axes cut.
  using cuts = assignment<carry<axis::tensor, heads, kv_heads, ffn, vocabulary>>;

  /// Before a block's products, and after them.
  using enter = redistributed<axis::tensor, replicated>;
  using leave = redistributed<axis::tensor, StreamState>;

  using stream = placement<on<axis::data, sharded<batch>>, on<axis::tensor, StreamState>>;
  /// Tokens and targets are the same on all ranks of the tensor axis.
  using tokens = constant<placement<on<axis::data, sharded<batch>>, on<axis::tensor, invariant>>>;

  template <element E>
  using stream_type = tensor<E, dims<batch, sequence, hidden>, stream>;
  using tokens_type = tensor<std::int32_t, dims<batch, sequence>, tokens>;
};

}  // namespace tenon::inline v0
