// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "tenon/base/check.hpp"

// AddressSanitizer's, which wants to know of every change of stack; null where it does not run.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake, const void* bottom,
                                                          std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake, const void** bottom,
                                                           std::size_t* size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace tenon::inline v0::kernel {

namespace detail {

/// A place where a thread of control waits, and the change from one to another.
#if defined(__x86_64__)
// As swapcontext does it, without asking the system for the signal mask each time.
struct waiting_place {
  void* stack = nullptr;

  /// On a stack of its own, `entry` begins when it is first changed to.
  void begin_at(void (*entry)(), std::byte* bottom, std::size_t bytes) {
    const std::size_t over = (reinterpret_cast<std::uintptr_t>(bottom) + bytes) % 16;
    auto* words = reinterpret_cast<void**>(bottom + bytes - over);
    *--words = nullptr;  // where entry would return to
    *--words = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--words = nullptr;
    stack = words;
  }
  static void change(waiting_place& from, waiting_place& to) {
    change_stack(&from.stack, to.stack);
  }

 private:
  [[gnu::naked, gnu::noinline]] static void change_stack(void** /*from: rdi*/, void* /*to: rsi*/) {
    asm volatile(
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
  }
};
#else
struct waiting_place {
  ucontext_t context{};

  void begin_at(void (*entry)(), std::byte* bottom, std::size_t bytes) {
    getcontext(&context);
    context.uc_stack.ss_sp = bottom;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  static void change(waiting_place& from, waiting_place& to) {
    swapcontext(&from.context, &to.context);
  }
};
#endif

}  // namespace detail

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
    while (true) {
      for (int w = 0; w < count() / warp; ++w) run_warp(in_order(w, count() / warp, order), order);
      if (failure_ != nullptr) std::rethrow_exception(failure_);
      int ended = 0;
      for (const lane& one : lanes_) ended += one.waits == waits_for::nothing ? 1 : 0;
      if (ended == count()) break;
      if (ended != 0) give_up("some lanes of a team wait at a barrier and others have ended");
      for (lane& one : lanes_) one.waits = waits_for::start;
      ++round_;
    }
  }

  /// Of the lane that runs: until all lanes, or all of its warp, wait likewise.
  void barrier() { wait(waits_for::team); }
  void warp_barrier() { wait(waits_for::warp_lanes); }

 private:
  enum class waits_for : std::uint8_t { start, warp_lanes, team, nothing };
  struct lane {
    std::unique_ptr<std::byte[]> stack;
    detail::waiting_place where;
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
        const int number = w * warp + i;
        for_warp += lanes_[static_cast<std::size_t>(number)].waits == waits_for::warp_lanes ? 1 : 0;
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
      one.where.begin_at(&fibres::enter, one.stack.get(), stack_bytes_);
      one.begun = true;
    }
    of_this_thread() = this;
    start_switch(&own_fake_stack_, one.stack.get(), stack_bytes_);
    detail::waiting_place::change(own_, one.where);
    finish_switch(own_fake_stack_, nullptr, nullptr);
  }
  void wait(waits_for what) {
    lane& one = lanes_[static_cast<std::size_t>(running_)];
    one.waits = what;
    start_switch(&one.fake_stack, own_stack_, own_stack_bytes_);
    detail::waiting_place::change(one.where, own_);
    finish_switch(one.fake_stack, &own_stack_, &own_stack_bytes_);
  }
  static void enter() { of_this_thread()->run_lane(); }
  static fibres*& of_this_thread() noexcept {
    thread_local fibres* running = nullptr;
    return running;
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
    detail::waiting_place::change(one.where, own_);
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
  detail::waiting_place own_;
  void* own_fake_stack_ = nullptr;
  const void* own_stack_ = nullptr;
  std::size_t own_stack_bytes_ = 0;
  int running_ = 0;
  std::int64_t round_ = 0;
};

}  // namespace tenon::inline v0::kernel
