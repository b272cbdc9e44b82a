// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0 {

namespace detail {

inline pending call_all_reduce(communicator& group, memory_view from, memory_view to,
                               reduction_kind reduction, const call_options& options,
                               call_site site) {
  require_size(group, "all_reduce", "the result", to.count, from.count);
  require_whole_units(group, "all_reduce", from.count, reduction);
  if (from.data != to.data) {
    require_apart(group, "all_reduce", from, to, "give the same span, or two apart");
  }
  request r;
  r.call = collective::all_reduce;
  r.element = to.kind;
  r.reduction = reduction;
  r.from = from.data;
  r.to = to.data;
  r.count = from.count;
  return group.call(r, options, site);
}

}  // namespace detail

namespace communicate {

/// Merges the ranks' values element by element and gives the result to all. `from` and `to` [n], n
/// the same on all ranks, apart or the same memory. bf16 is added in fp32 and rounded once.
/// Throws bad_request when the sizes differ.
template <class T>
pending all_reduce(communicator& group, std::type_identity_t<std::span<const T>> from,
                   std::span<T> to, reduction_kind reduction = reduction_kind::sum,
                   const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(
      reducible<T>,
      "all_reduce: these elements cannot be merged; use fp64, fp32, bf16, int32 or int64");
  return detail::call_all_reduce(group, from, to, reduction, options, site);
}

/// In place.
template <class T>
pending all_reduce(communicator& group, std::span<T> values,
                   reduction_kind reduction = reduction_kind::sum, const call_options& options = {},
                   call_site site = call_site::here()) {
  static_assert(
      reducible<T>,
      "all_reduce: these elements cannot be merged; use fp64, fp32, bf16, int32 or int64");
  return detail::call_all_reduce(group, values, values, reduction, options, site);
}

}  // namespace communicate
}  // namespace tenon::inline v0
