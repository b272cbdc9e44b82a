// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/communicate/communicator.hpp"

namespace tenon::inline v0::communicate {

/// Returns when all ranks of the axis have come.
inline pending barrier(communicator& group, const call_options& options = {},
                       call_site site = call_site::here()) {
  request r;
  r.call = collective::barrier;
  return group.call(r, options, site);
}

}  // namespace tenon::inline v0::communicate
