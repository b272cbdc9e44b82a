// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tenon/base/log.hpp"
#include "tenon/communicate/call.hpp"

namespace tenon::inline v0 {

/// Watches the calls that wait for other ranks, where the transport itself cannot stop waiting
/// (MPI). When a call takes longer than its timeout, the handler gets one sentence that names rank,
/// axis, call, step and the seconds waited; without a handler the sentence is logged. A program's
/// handler prints it and leaves by std::_Exit(4): a thread inside MPI cannot be woken. The watching
/// thread starts with the first watched call and costs nothing between its looks. A call's wait
/// counts from the first look that finds it, so that the call itself reads no clock: it is told of
/// at most two looks late, an eighth of the timeout or a second.
/// Thread-safety: all members may be called from any thread.
class watchdog {
 public:
  using handler = std::function<void(const std::string& sentence)>;

  static watchdog& of_this_process() {
    static watchdog dog;
    return dog;
  }
  ~watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  void set_handler(handler on_timeout) {
    const std::lock_guard lock(mutex_);
    on_timeout_ = std::move(on_timeout);
  }

  /// Watches one call while it lives. The request must stay; a timeout of 0 watches nothing.
  class watch {
   public:
    watch(const request& call, int rank, int size, double timeout)
        : call_(call), rank_(rank), size_(size), timeout_(timeout) {
      if (timeout_ > 0) of_this_process().add(*this);
    }
    ~watch() {
      if (timeout_ > 0) of_this_process().remove(*this);
    }
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;

   private:
    friend class watchdog;
    const request& call_;
    int rank_;
    int size_;
    double timeout_;
    std::optional<std::chrono::steady_clock::time_point> seen_;  // by the watching thread, first
    bool told_ = false;
    watch* before_ = nullptr;
    watch* after_ = nullptr;
  };

 private:
  watchdog() = default;

  /// Guards the list. Ranks hold it for a few instructions, the watching thread while it looks. It
  /// is written out where a call is watched; a std::mutex would go into the C library twice a call.
  class list_lock {
   public:
    void lock() noexcept {
      while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool> taken_{false};
  };

  void add(watch& call) {
    if (call.timeout_ < shortest_.load(std::memory_order_relaxed)) allow(call.timeout_);
    const std::lock_guard guard(list_);
    call.after_ = first_;
    if (first_ != nullptr) first_->before_ = &call;
    first_ = &call;
  }
  void remove(watch& call) {
    const std::lock_guard guard(list_);
    (call.before_ == nullptr ? first_ : call.before_->after_) = call.after_;
    if (call.after_ != nullptr) call.after_->before_ = call.before_;
  }

  /// The thread sleeps for as long as the shortest timeout so far allows.
  void allow(double timeout) {
    const std::lock_guard lock(mutex_);
    shortest_ = std::min(timeout, shortest_.load());
    if (!thread_.joinable()) thread_ = std::thread([this] { look(); });
    wake_.notify_all();
  }

  void look() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, std::chrono::duration<double>(std::clamp(shortest_ / 16, 0.005, 0.5)));
      // Under the list's lock: so a call, and what it points to, is still there.
      const std::lock_guard guard(list_);
      const auto now = std::chrono::steady_clock::now();
      for (watch* call = first_; call != nullptr; call = call->after_) {
        if (!call->seen_) call->seen_ = now;
        const std::chrono::duration<double> waited = now - *call->seen_;
        if (call->told_ || waited.count() < call->timeout_) continue;
        call->told_ = true;
        const std::string sentence = joined(
            "rank ", call->rank_, " of ", described_group(call->call_.axis, call->size_),
            " has waited ", static_cast<std::int64_t>(waited.count() + 0.5), " s at step ",
            call->call_.step, " in ", described(call->call_),
            ": another rank of this axis stays away; look at what the others print, or allow more "
            "with --timeout");
        if (on_timeout_) {
          on_timeout_(sentence);
        } else {
          log(log_level::error, sentence);
        }
      }
    }
  }

  list_lock list_;
  watch* first_ = nullptr;  // of the watched calls
  std::atomic<double> shortest_{std::numeric_limits<double>::infinity()};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  handler on_timeout_;
  bool stopping_ = false;
};

}  // namespace tenon::inline v0
