// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0 {

namespace detail {

inline pending call_reduce_scatter(communicator& group, memory_view whole, memory_view piece,
                                   std::span<const std::int64_t> counts, reduction_kind reduction,
                                   const call_options& options, call_site site) {
  require_counts(group, "reduce_scatter", counts);
  require_own_part(group, "reduce_scatter", piece, whole, counts);
  for (const std::int64_t count : counts) {
    require_whole_units(group, "reduce_scatter", count, reduction);
  }
  request r;
  r.call = collective::reduce_scatter;
  r.element = piece.kind;
  r.reduction = reduction;
  r.from = whole.data;
  r.to = piece.data;
  r.from_counts = counts;
  return group.call(r, options, site);
}

}  // namespace detail

namespace communicate {

/// Merges the ranks' values element by element; each rank gets its piece of the result. `whole`
/// [sum of counts], `piece` [counts[rank]], `counts` [ranks] the same on all; a count may be zero.
/// In place: `piece` is its own part of `whole`, and the rest of `whole` is then unspecified. bf16
/// is added in fp32 and rounded once. Throws bad_request when sizes and counts do not fit.
template <class T>
pending reduce_scatter(communicator& group, std::type_identity_t<std::span<const T>> whole,
                       std::span<T> piece, std::span<const std::int64_t> counts,
                       reduction_kind reduction = reduction_kind::sum,
                       const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(
      reducible<T>,
      "reduce_scatter: these elements cannot be merged; use fp64, fp32, bf16, int32 or int64");
  return detail::call_reduce_scatter(group, whole, piece, counts, reduction, options, site);
}

}  // namespace communicate
}  // namespace tenon::inline v0
