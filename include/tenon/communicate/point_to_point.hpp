// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0::communicate {

/// Sends values to one rank of the axis. It may return before the other rank receives, or only
/// then: a program must not lean on either. Messages with equal partner and tag arrive in order.
/// Throws bad_request when `to` is no other rank of the axis.
template <class T>
pending send(communicator& group, std::span<T> values, int to, const call_options& options = {},
             call_site site = call_site::here()) {
  static_assert(storable<std::remove_const_t<T>>,
                "send: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or bytes");
  detail::require_partner(group, "send", to, options);
  request r;
  r.call = collective::send;
  r.element = kind_of<std::remove_const_t<T>>;
  r.from = values.data();
  r.count = detail::count_in(values);
  r.peer = to;
  return group.call(r, options, site);
}

/// Receives the values that one rank of the axis sends: as many as it sends, of the same element.
template <class T>
pending receive(communicator& group, std::span<T> values, int from,
                const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(
      storable<T>,
      "receive: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or bytes");
  detail::require_partner(group, "receive", from, options);
  request r;
  r.call = collective::receive;
  r.element = kind_of<T>;
  r.to = values.data();
  r.count = detail::count_in(values);
  r.peer = from;
  return group.call(r, options, site);
}

}  // namespace tenon::inline v0::communicate
