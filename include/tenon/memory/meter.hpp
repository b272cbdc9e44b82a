// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace tenon::inline v0 {

/// Counts the bytes that the buffers of one rank hold, and the most they held. Every rank has its
/// own: a thread that plays a simulated rank, or the process.
/// Thread-safety: none; a rank's buffers are made and freed by the rank's own thread.
class memory_meter {
 public:
  std::int64_t live() const noexcept { return live_; }
  std::int64_t peak() const noexcept { return peak_; }

  /// Forgets the past: the peak is what is held now.
  void restart_peak() noexcept { peak_ = live_; }

  void add(std::int64_t bytes) noexcept {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  /// True while a program is run for its shapes alone: buffers count and hold no memory, kernels
  /// and collectives return at once. See `shapes_only`.
  bool shapes_only = false;

  /// The meter of the rank that this thread plays.
  static memory_meter& of_this_rank() noexcept {
    thread_local memory_meter meter;
    return meter;
  }

 private:
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

/// While it lives, this rank runs for shapes alone: the peak it then reads is the memory that the
/// same calls will take, in no memory and no time. Predicted memory is found so.
class shapes_only {
 public:
  shapes_only() noexcept : before_(memory_meter::of_this_rank()) {
    memory_meter::of_this_rank() = memory_meter{};
    memory_meter::of_this_rank().shapes_only = true;
  }
  ~shapes_only() { memory_meter::of_this_rank() = before_; }
  shapes_only(const shapes_only&) = delete;
  shapes_only& operator=(const shapes_only&) = delete;

  static bool active() noexcept { return memory_meter::of_this_rank().shapes_only; }

 private:
  memory_meter before_;
};

/// While it lives, what this rank makes and frees is not counted: it must free all that it makes.
class uncounted_memory {
 public:
  uncounted_memory() noexcept : before_(memory_meter::of_this_rank()) {}
  ~uncounted_memory() { memory_meter::of_this_rank() = before_; }
  uncounted_memory(const uncounted_memory&) = delete;
  uncounted_memory& operator=(const uncounted_memory&) = delete;

 private:
  memory_meter before_;
};

}  // namespace tenon::inline v0
