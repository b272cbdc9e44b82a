// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0::communicate {

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
  detail::require_counts(group, "reduce_scatter", counts);
  const auto me = static_cast<std::size_t>(group.rank());
  detail::require_size(group, "reduce_scatter", "the whole", detail::count_in(whole),
                       sum_of(counts));
  detail::require_size(group, "reduce_scatter", "the piece", detail::count_in(piece), counts[me]);
  for (const std::int64_t count : counts) {
    require(count % unit_of(reduction) == 0, "reduce_scatter on axis ", group.axis(),
            ": a piece of ", count, " elements cuts a pair; log_sum_exp merges pairs");
  }
  if (!whole.empty() && piece.data() != whole.data() + sum_of(counts.first(me))) {
    detail::require_apart(group, "reduce_scatter", piece.data(), std::ssize(piece) * sizeof(T),
                          whole.data(), std::ssize(whole) * sizeof(T),
                          "in place, the piece is its own part of the whole");
  }
  request r;
  r.call = collective::reduce_scatter;
  r.element = kind_of<T>;
  r.reduction = reduction;
  r.from = whole.data();
  r.to = piece.data();
  r.from_counts = counts;
  return group.call(r, options, site);
}

}  // namespace tenon::inline v0::communicate
