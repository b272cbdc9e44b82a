// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/communicate/nccl/issue.hpp"

namespace tenon::inline v0::detail {

/// What makes progress when it is asked.
class nccl_progress {
 public:
  virtual ~nccl_progress() = default;
  /// One look, without waiting. Throws what went wrong.
  virtual void progress() = 0;
  /// True while calls wait to be queued on the device.
  virtual bool busy() const noexcept = 0;
};

/// What the groups of one rank share: its GPU, events to use again, and all lanes, so that a rank
/// that waits in one group helps the calls that it started in another.
template <class Calls>
class nccl_engine {
 public:
  nccl_engine(device& gpu, Calls calls) : calls_(std::move(calls)), gpu_(gpu) {}
  nccl_engine(const nccl_engine&) = delete;
  nccl_engine& operator=(const nccl_engine&) = delete;
  ~nccl_engine() {
    for (const typename Calls::event event : events_) calls_.free_event(event);
  }

  Calls& calls() noexcept { return calls_; }
  device& gpu() noexcept { return gpu_; }
  typename Calls::stream compute_stream() { return calls_.compute_stream(gpu_); }

  typename Calls::event take_event() {
    if (events_.empty()) return calls_.make_event();
    const typename Calls::event event = events_.back();
    events_.pop_back();
    return event;
  }
  void give_back(typename Calls::event event) { events_.push_back(event); }

  void enter(nccl_progress& lane) { lanes_.push_back(&lane); }
  void leave(nccl_progress& lane) noexcept { std::erase(lanes_, &lane); }
  bool busy() const noexcept {
    return std::ranges::any_of(lanes_, [](const nccl_progress* lane) { return lane->busy(); });
  }

  /// Helps all lanes until it holds; false when that takes longer than `seconds` (0: for ever). The
  /// core is left to others in between.
  template <class Holds>
  bool help_until(Holds holds, double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    for (int looks = 0;; ++looks) {
      if (holds()) return true;
      // By number: a look may not make lanes, but it may throw.
      for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i]->progress();
      if (holds()) return true;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (seconds > 0 && waited.count() > seconds) return false;
      if (looks < 100) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

 private:
  Calls calls_;
  device& gpu_;
  std::vector<typename Calls::event> events_;
  std::vector<nccl_progress*> lanes_;
};

/// One call on its way to the device. It owns its counts and texts, and the copy of the input that
/// an all_to_all in place needs; the meter does not count it.
template <class Calls>
class nccl_operation {
 public:
  enum class state : std::uint8_t {
    waiting,  ///< for the calls before it, or for its communicator
    issued,   ///< NCCL has it, and may not have queued it yet
    queued,   ///< on the stream, and `after` behind it
  };

  nccl_operation(std::shared_ptr<nccl_engine<Calls>> engine, const request& r)
      : engine_(std::move(engine)),
        call(r),
        axis_(r.axis),
        tensor_(r.tensor),
        from_counts_(r.from_counts.begin(), r.from_counts.end()),
        to_counts_(r.to_counts.begin(), r.to_counts.end()) {
    call.axis = axis_;
    call.tensor = tensor_;
    call.from_counts = from_counts_;
    call.to_counts = to_counts_;
    const bool in_place = r.call == collective::all_to_all && r.from == r.to && r.from != nullptr;
    if (in_place) {
      aside_bytes_ = static_cast<std::size_t>(sum_of(r.from_counts) * bytes_of(r.element));
      if (aside_bytes_ > 0) aside_ = engine_->gpu().allocate(aside_bytes_);
    }
    before = engine_->take_event();
    after = engine_->take_event();
    // From here on what the rank computes next does not hold the call up.
    engine_->calls().record(before, engine_->compute_stream());
  }
  nccl_operation(const nccl_operation&) = delete;
  nccl_operation& operator=(const nccl_operation&) = delete;
  ~nccl_operation() {
    free_aside();
    engine_->give_back(before);
    engine_->give_back(after);
  }

  void* aside() const noexcept { return aside_; }
  /// In the order of the compute stream: once that waits for `after`.
  void free_aside() noexcept {
    if (aside_ != nullptr) engine_->gpu().free(std::exchange(aside_, nullptr), aside_bytes_);
  }

 private:
  std::shared_ptr<nccl_engine<Calls>> engine_;

 public:
  request call;
  typename Calls::event before{};  ///< the rank's own work that the call needs
  typename Calls::event after{};   ///< the call
  state now = state::waiting;

 private:
  std::string axis_;
  std::string tensor_;
  std::vector<std::int64_t> from_counts_;
  std::vector<std::int64_t> to_counts_;
  void* aside_ = nullptr;
  std::size_t aside_bytes_ = 0;
};

}  // namespace tenon::inline v0::detail
