// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0::communicate {

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
  detail::require_counts(group, "all_gather", counts);
  const auto me = static_cast<std::size_t>(group.rank());
  detail::require_size(group, "all_gather", "the piece", detail::count_in(piece), counts[me]);
  detail::require_size(group, "all_gather", "the whole", detail::count_in(whole), sum_of(counts));
  if (!whole.empty() && piece.data() != whole.data() + sum_of(counts.first(me))) {
    detail::require_apart(group, "all_gather", piece.data(), std::ssize(piece) * sizeof(T),
                          whole.data(), std::ssize(whole) * sizeof(T),
                          "in place, the piece is its own part of the whole");
  }
  request r;
  r.call = collective::all_gather;
  r.element = kind_of<T>;
  r.from = piece.data();
  r.to = whole.data();
  r.to_counts = counts;
  return group.call(r, options, site);
}

/// Pieces of equal size: `piece` [n], `whole` [ranks x n].
template <class T>
pending all_gather(communicator& group, std::type_identity_t<std::span<const T>> piece,
                   std::span<T> whole, const call_options& options = {},
                   call_site site = call_site::here()) {
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()),
                                         detail::count_in(piece));
  return all_gather(group, piece, whole, std::span<const std::int64_t>(counts), options, site);
}

}  // namespace tenon::inline v0::communicate
