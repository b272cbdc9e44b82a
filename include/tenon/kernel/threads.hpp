// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/check.hpp"

namespace tenon::inline v0::kernel {

namespace detail {
inline int& threads_of_this_rank() noexcept {
  thread_local int count = 1;
  return count;
}
}  // namespace detail

/// How many threads the kernels that this thread starts may use; 1 until it is set. A thread that
/// plays a simulated rank keeps 1: it then opens no OpenMP region at all.
/// Thread-safety: every thread has a number of its own.
inline int threads() noexcept { return detail::threads_of_this_rank(); }

/// Sets what `threads()` answers in this thread.
inline void set_threads(int count) {
  require(count >= 1, "set_threads: ", count, " threads were asked for; ask for 1 or more");
  detail::threads_of_this_rank() = count;
}

}  // namespace tenon::inline v0::kernel
