// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::inline v0 {

/// What the ranks that share a batch divide among them, each stage with what the one before
/// divides. m microbatches, d ranks, M elements; sent by a rank in a step, in elements:
///
///   none         nothing                        all-reduce once                      2M (d-1)/d
///   optimizer    moments and master weights     scatter once, gather once            2M (d-1)/d
///   gradients    and the sum of gradients       scatter m times, gather once     (m+1)M (d-1)/d
///   parameters   and the weights between uses   scatter m times, gather 2m times    3mM (d-1)/d
///
/// Source: S. Rajbhandari and others, ZeRO: memory optimizations toward training trillion parameter
/// models, SC20; the last, gathered by layers: Y. Zhao and others, PyTorch FSDP, VLDB 2023.
enum class shards : std::uint8_t { none, optimizer, gradients, parameters };

constexpr std::string_view name_of(shards which) noexcept {
  constexpr std::string_view names[] = {"none", "optimizer", "gradients", "parameters"};
  return names[static_cast<int>(which)];
}

/// How gradients are put together for their reduction: as many elements as given, or, with 0, each
/// parameter by itself. A bucket does not reach beyond a unit.
struct bucket_size {
  std::int64_t elements = std::int64_t{1} << 22;
};

/// How a run keeps its parameters.
struct shard_settings {
  shards stage = shards::none;
  int data_extent = 0;  ///< ranks of the data axis that divide; 0: all; fewer: the rest hold copies
  bucket_size bucket{};
  bool overlap = false;  ///< gather one unit ahead; reduce while backward goes on
};

}  // namespace tenon::inline v0
