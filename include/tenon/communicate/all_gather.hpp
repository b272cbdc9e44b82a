// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"
#include "tenon/communicate/rank_counts.hpp"

namespace tenon::inline v0 {

namespace detail {

inline pending call_all_gather(communicator& group, memory_view piece, memory_view whole,
                               std::span<const std::int64_t> counts, const call_options& options,
                               call_site site) {
  require_counts(group, "all_gather", counts);
  require_own_part(group, "all_gather", piece, whole, counts);
  request r;
  r.call = collective::all_gather;
  r.element = whole.kind;
  r.from = piece.data;
  r.to = whole.data;
  r.to_counts = counts;
  return group.call(r, options, site);
}

}  // namespace detail

namespace communicate {

/// Puts the pieces of all ranks one after the other, on all ranks. `piece` [counts[rank]], `whole`
/// [sum of counts], `counts` [ranks] the same on all; a count may be zero. In place: `piece` is its
/// own part of `whole`. Throws bad_request when sizes and counts do not fit.
template <class T>
pending all_gather(communicator& group, std::type_identity_t<std::span<const T>> piece,
                   std::span<T> whole, std::span<const std::int64_t> counts,
                   const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(storable<T>,
                "all_gather: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or "
                "bytes");
  return detail::call_all_gather(group, piece, whole, counts, options, site);
}

/// Pieces of equal size: `piece` [n], `whole` [ranks x n].
template <class T>
pending all_gather(communicator& group, std::type_identity_t<std::span<const T>> piece,
                   std::span<T> whole, const call_options& options = {},
                   call_site site = call_site::here()) {
  static_assert(storable<T>,
                "all_gather: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or "
                "bytes");
  rank_counts counts(group.size());
  std::fill_n(counts.data(), counts.size(), static_cast<std::int64_t>(piece.size()));
  return detail::call_all_gather(group, piece, whole, counts, options, site);
}

}  // namespace communicate
}  // namespace tenon::inline v0
