// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tenon/base/check.hpp"

// AddressSanitizer's, which wants to know of every change of stack; null where it does not run.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake, const void* bottom,
                                                          std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake, const void** bottom,
                                                           std::size_t* size);
}

namespace tenon::inline v0::kernel {

/// In which order the lanes between two barriers run. A program that lacks no barrier gives the
/// same result in all of them.
enum class lane_order : std::uint8_t { forward, backward, alternating };

/// Lanes of a team as fibres of one thread: each has a stack of its own and runs until it waits.
/// Lanes wait for the others of their warp (32 lanes) or for all.
///
///   lane 0  ----| wait        lane 1  ----| wait        lane 0 ...   each runs up to the barrier,
///                                                                     then the next lane does
///
/// Errors: failed when a lane waits at a barrier that another never reaches.
/// Thread-safety: none; it belongs to the thread that runs it.
class fibres {
 public:
  static constexpr int warp = 32;

  explicit fibres(int count, std::size_t stack_bytes = std::size_t{256} << 10)
      : stack_bytes_(stack_bytes), lanes_(static_cast<std::size_t>(count)) {
    require(count > 0 && count % warp == 0, "fibres: ", count,
            " lanes were asked for; ask for a multiple of ", warp);
    for (lane& one : lanes_) one.stack = std::make_unique<std::byte[]>(stack_bytes);
  }
  fibres(const fibres&) = delete;
  fibres& operator=(const fibres&) = delete;

  int count() const noexcept { return static_cast<int>(lanes_.size()); }

  /// Runs f(lane) on every lane.
  void run(const std::function<void(int)>& f, lane_order order = lane_order::forward) {
    program_ = &f;
    failure_ = nullptr;
    round_ = 0;
    for (lane& one : lanes_) one.waits = waits_for::start;
    bool going = true;
    while (going) {
      going = false;
      for (int w = 0; w < count() / warp; ++w) run_warp(in_order(w, count() / warp, order), order);
      if (failure_ != nullptr) std::rethrow_exception(failure_);
      int ended = 0;
      for (const lane& one : lanes_) ended += one.waits == waits_for::nothing ? 1 : 0;
      if (ended == count()) break;
      if (ended != 0) give_up("some lanes of a team wait at a barrier and others have ended");
      for (lane& one : lanes_) one.waits = waits_for::start;
      ++round_;
      going = true;
    }
  }

  /// Of the lane that runs: until all lanes, or all of its warp, wait likewise.
  void barrier() { wait(waits_for::team); }
  void warp_barrier() { wait(waits_for::warp_lanes); }

 private:
  enum class waits_for : std::uint8_t { start, warp_lanes, team, nothing };
  struct lane {
    std::unique_ptr<std::byte[]> stack;
    ucontext_t context{};
    waits_for waits = waits_for::start;
    bool begun = false;
    void* fake_stack = nullptr;
  };

  [[noreturn]] void give_up(const char* what) {
    abandon();
    throw error(error_kind::failed,
                joined("fibres: ", what, "; all lanes of a team must reach every barrier"));
  }
  // Lanes that wait are left where they are: what they hold is not freed.
  void abandon() noexcept {
    for (lane& one : lanes_) one.begun = false;
  }
  int in_order(int i, int n, lane_order order) const noexcept {
    const bool turned =
        order == lane_order::backward || (order == lane_order::alternating && round_ % 2 == 1);
    return turned ? n - 1 - i : i;
  }

  // Until all of the warp's lanes wait for the team, or have ended.
  void run_warp(int w, lane_order order) {
    while (true) {
      for (int i = 0; i < warp; ++i) {
        const int number = w * warp + in_order(i, warp, order);
        if (lanes_[static_cast<std::size_t>(number)].waits != waits_for::nothing) resume(number);
        if (failure_ != nullptr) return abandon();
      }
      int for_warp = 0;
      for (int i = 0; i < warp; ++i) {
        for_warp +=
            lanes_[static_cast<std::size_t>(w * warp + i)].waits == waits_for::warp_lanes ? 1 : 0;
      }
      if (for_warp == 0) return;
      if (for_warp != warp) give_up("some lanes of a warp wait for it and others do not");
      ++round_;
    }
  }

  void resume(int number) {
    lane& one = lanes_[static_cast<std::size_t>(number)];
    running_ = number;
    if (!one.begun) {
      getcontext(&one.context);
      one.context.uc_stack.ss_sp = one.stack.get();
      one.context.uc_stack.ss_size = stack_bytes_;
      one.context.uc_link = nullptr;
      const auto self = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&one.context, reinterpret_cast<void (*)()>(&fibres::enter), 2,
                  static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
      one.begun = true;
    }
    start_switch(&own_fake_stack_, one.stack.get(), stack_bytes_);
    swapcontext(&own_, &one.context);
    finish_switch(own_fake_stack_, nullptr, nullptr);
  }
  void wait(waits_for what) {
    lane& one = lanes_[static_cast<std::size_t>(running_)];
    one.waits = what;
    start_switch(&one.fake_stack, own_stack_, own_stack_bytes_);
    swapcontext(&one.context, &own_);
    finish_switch(one.fake_stack, &own_stack_, &own_stack_bytes_);
  }
  static void enter(unsigned high, unsigned low) {
    reinterpret_cast<fibres*>((std::uintptr_t{high} << 32) | low)->run_lane();
  }
  void run_lane() {
    finish_switch(nullptr, &own_stack_, &own_stack_bytes_);
    const int number = running_;
    try {
      (*program_)(number);
    } catch (...) {
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
    lane& one = lanes_[static_cast<std::size_t>(number)];
    one.waits = waits_for::nothing;
    one.begun = false;
    start_switch(nullptr, own_stack_, own_stack_bytes_);
    setcontext(&own_);
  }

  static void start_switch(void** fake, const void* bottom, std::size_t size) {
    if (__sanitizer_start_switch_fiber != nullptr) {
      __sanitizer_start_switch_fiber(fake, bottom, size);
    }
  }
  static void finish_switch(void* fake, const void** bottom, std::size_t* size) {
    if (__sanitizer_finish_switch_fiber != nullptr) {
      __sanitizer_finish_switch_fiber(fake, bottom, size);
    }
  }

  std::size_t stack_bytes_;
  std::vector<lane> lanes_;
  const std::function<void(int)>* program_ = nullptr;
  std::exception_ptr failure_;
  ucontext_t own_{};
  void* own_fake_stack_ = nullptr;
  const void* own_stack_ = nullptr;
  std::size_t own_stack_bytes_ = 0;
  int running_ = 0;
  std::int64_t round_ = 0;
};

}  // namespace tenon::inline v0::kernel
