// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/communicate/ordered_reduction.hpp"
#include "tenon/communicate/staged/call.hpp"

namespace tenon::inline v0::detail {

/// An ordered reduction of memory on the rank's device: the ranks merge on the host, and the result
/// is copied in.
class staged_ordered_reduction final : public in_flight {
 public:
  staged_ordered_reduction(transport& group, const request& r)
      : staged_(r), merged_(group, staged_.on_host(group.rank())) {}

  void run() {
    merged_.run();
    staged_.finish();
  }
  void start() { merged_.start(); }
  void wait() override {
    merged_.wait();
    staged_.finish();
  }
  bool done() override {
    if (!merged_.done()) return false;
    staged_.finish();
    return true;
  }

 private:
  staged_call staged_;
  ordered_reduction merged_;
};

}  // namespace tenon::inline v0::detail
