// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tenon/communicate/staged/call.hpp"
#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0 {

/// Device memory over a transport of the host: each call waits for the device, copies to pinned
/// host memory, and copies what has come back. Several ranks may be on one GPU. Calls on host
/// memory
/// (`place::host`, the library's own checks) pass as they are.
/// Thread-safety: none; a transport is used by one thread, the rank's.
class staged_transport final : public transport {
 public:
  explicit staged_transport(std::unique_ptr<transport> inner)
      : transport(inner->rank(), inner->size()), inner_(std::move(inner)) {}

  std::unique_ptr<transport> split(int color, int key) override {
    return std::make_unique<staged_transport>(inner_->split(color, key));
  }
  void run(const request& call) override {
    if (passes(call)) return inner_->run(call);
    detail::staged_call staged(call);
    inner_->run(staged.on_host(rank()));
    staged.finish();
  }
  pending start(const request& call) override {
    if (passes(call)) return inner_->start(call);
    auto staged = std::make_unique<detail::staged_call>(call);
    staged->started(inner_->start(staged->on_host(rank())));
    return pending(std::move(staged));
  }
  std::int64_t copied_bytes() const noexcept override { return inner_->copied_bytes(); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }

 private:
  static bool passes(const request& call) noexcept {
    return device::of_this_rank() == nullptr || call.bookkeeping || call.where == place::host;
  }

  std::unique_ptr<transport> inner_;
};

}  // namespace tenon::inline v0
