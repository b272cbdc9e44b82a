// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0 {

namespace detail {

inline pending call_all_to_all(communicator& group, memory_view from,
                               std::span<const std::int64_t> from_counts, memory_view to,
                               std::span<const std::int64_t> to_counts, const call_options& options,
                               call_site site) {
  require_counts(group, "all_to_all", from_counts);
  require_counts(group, "all_to_all", to_counts);
  require_size(group, "all_to_all", "the input", from.count, sum_of(from_counts));
  require_size(group, "all_to_all", "the result", to.count, sum_of(to_counts));
  const auto me = static_cast<std::size_t>(group.rank());
  require(from_counts[me] == to_counts[me], "all_to_all on axis ", group.axis(), " rank ",
          group.rank(), ": it sends itself ", from_counts[me], " elements and expects ",
          to_counts[me], "; make them equal");
  if (from.data == to.data) {
    require(from.count == 0 || std::ranges::equal(from_counts, to_counts), "all_to_all on axis ",
            group.axis(),
            ": in place, as many elements come from a rank as go to it; give two spans apart");
  } else {
    require_apart(group, "all_to_all", from, to, "give the same span, or two apart");
  }
  request r;
  r.call = collective::all_to_all;
  r.element = to.kind;
  r.from = from.data;
  r.to = to.data;
  r.from_counts = from_counts;
  r.to_counts = to_counts;
  return group.call(r, options, site);
}

}  // namespace detail

namespace communicate {

/// Each rank sends a piece to each rank. `from` [sum of from_counts] holds the pieces in the order
/// of the ranks they go to, `to` [sum of to_counts] in the order of the ranks they come from. A
/// count may be zero. In place (`from` is `to`): the counts to and from each rank are equal.
/// `options.global_count`, the elements of all ranks, lets MPI's own function be used.
/// Throws bad_request when sizes and counts do not fit.
template <class T>
pending all_to_all(communicator& group, std::type_identity_t<std::span<const T>> from,
                   std::span<const std::int64_t> from_counts, std::span<T> to,
                   std::span<const std::int64_t> to_counts, const call_options& options = {},
                   call_site site = call_site::here()) {
  static_assert(storable<T>,
                "all_to_all: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or "
                "bytes");
  return detail::call_all_to_all(group, from, from_counts, to, to_counts, options, site);
}

}  // namespace communicate
}  // namespace tenon::inline v0
