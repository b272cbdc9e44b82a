// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "tenon/base/log.hpp"

namespace tenon::inline v0 {

/// A call on its way. What a transport makes and `pending` owns.
class in_flight {
 public:
  virtual ~in_flight() = default;
  /// Returns when the call is done; throws what went wrong with it.
  virtual void wait() = 0;
  /// Makes progress without waiting; true when `wait` will not wait.
  virtual bool done() = 0;
};

/// A call that was started. Its buffers must stay, untouched, until `wait` has returned or `done`
/// has said true. The destructor waits, so that a forgotten one is slow and never wrong; while an
/// error unwinds it does not wait, and the communicator is of no use any more.
/// Thread-safety: none; it is used by the thread that started the call.
class pending {
 public:
  pending() = default;
  explicit pending(std::unique_ptr<in_flight> call)
      : call_(std::move(call)), errors_(std::uncaught_exceptions()) {}
  pending(pending&&) noexcept = default;
  pending& operator=(pending&& other) noexcept {
    if (this != &other) {
      finish();
      call_ = std::move(other.call_);
      errors_ = other.errors_;
    }
    return *this;
  }
  ~pending() { finish(); }

  void wait() {
    if (call_ == nullptr) return;
    const std::unique_ptr<in_flight> call = std::move(call_);
    call->wait();
  }
  bool done() { return call_ == nullptr || call_->done(); }

 private:
  void finish() noexcept {
    if (call_ == nullptr || std::uncaught_exceptions() > errors_) return;
    try {
      wait();
    } catch (const std::exception& e) {
      log(log_level::error, "a call that nobody waited for failed: ", e.what());
    }
  }

  std::unique_ptr<in_flight> call_;
  int errors_ = 0;  // that unwound when the call was started
};

}  // namespace tenon::inline v0
