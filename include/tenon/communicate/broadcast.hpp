// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tenon/communicate/buffers.hpp"

namespace tenon::inline v0::communicate {

/// Gives the values of rank `root` to all ranks of the axis. `values` [n], n the same on all.
/// Throws bad_request when `root` is no rank of the axis.
template <class T>
pending broadcast(communicator& group, std::span<T> values, int root = 0,
                  const call_options& options = {}, call_site site = call_site::here()) {
  static_assert(storable<T>,
                "broadcast: these elements cannot be sent; use fp64, fp32, bf16, int32, int64 or "
                "bytes");
  require(root >= 0 && root < group.size(), "broadcast on axis ", group.axis(), ": the root is ",
          root, "; it is one of the ranks 0 to ", group.size() - 1);
  request r;
  r.call = collective::broadcast;
  r.element = kind_of<T>;
  r.to = values.data();
  r.count = static_cast<std::int64_t>(values.size());
  r.peer = root;
  return group.call(r, options, site);
}

}  // namespace tenon::inline v0::communicate
