// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0 {

namespace detail {

inline pending message(communicator& group, collective call, memory_view values, int partner,
                       const call_options& options, call_site site) {
  require_partner(group, name_of(call), partner, options);
  request r;
  r.call = call;
  r.element = values.kind;
  r.from = values.data;
  r.to = values.data;
  r.count = values.count;
  r.peer = partner;
  return group.call(r, options, site);
}

}  // namespace detail

namespace communicate {

/// Sends values to one rank of the axis. It may return before the other rank receives, or only
/// then: a program must not lean on either. Messages with equal partner and tag arrive in order.
/// Throws bad_request when `to` is no other rank of the axis.
template <class T>
pending send(communicator& group, std::span<T> values, int to, const call_options& options = {},
             call_site site = call_site::here()) {
  static_assert(storable<std::remove_const_t<T>>,
                "send: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or bytes");
  return detail::message(group, collective::send, values, to, options, site);
}

/// Receives the values that one rank of the axis sends: as many as it sends, of the same element.
template <class T>
pending receive(communicator& group, std::span<T> values, int from,
                const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(
      storable<T>,
      "receive: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or bytes");
  return detail::message(group, collective::receive, values, from, options, site);
}

}  // namespace communicate
}  // namespace tenon::inline v0
