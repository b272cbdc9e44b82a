// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0::communicate {

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
  detail::require_size(group, "all_reduce", "the result", detail::count_in(to),
                       detail::count_in(from));
  require(detail::count_in(from) % unit_of(reduction) == 0, "all_reduce on axis ", group.axis(),
          ": ", from.size(), " elements are not whole pairs; log_sum_exp merges pairs");
  if (from.data() != to.data()) {
    detail::require_apart(group, "all_reduce", from.data(), std::ssize(from) * sizeof(T), to.data(),
                          std::ssize(to) * sizeof(T), "give the same span, or two apart");
  }
  request r;
  r.call = collective::all_reduce;
  r.element = kind_of<T>;
  r.reduction = reduction;
  r.from = from.data();
  r.to = to.data();
  r.count = detail::count_in(from);
  return group.call(r, options, site);
}

/// In place.
template <class T>
pending all_reduce(communicator& group, std::span<T> values,
                   reduction_kind reduction = reduction_kind::sum, const call_options& options = {},
                   call_site site = call_site::here()) {
  return all_reduce(group, values, values, reduction, options, site);
}

}  // namespace tenon::inline v0::communicate
