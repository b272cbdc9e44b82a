// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "tenon/kernel/team/device_entry.hpp"
#include "tenon/kernel/team/host_team.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// Below this many elements opening a parallel region costs more than it saves.
inline constexpr std::int64_t fewest_elements_for_threads = 16384;

inline std::int64_t threads_for(std::int64_t count, std::int64_t elements_each) noexcept {
  const std::int64_t most = std::min<std::int64_t>(threads(), count);
  if (most < 2) return 1;
  const std::int64_t each = std::max<std::int64_t>(elements_each, 1);
  return each < fewest_elements_for_threads && count < fewest_elements_for_threads / each ? 1
                                                                                          : most;
}

#if defined(_OPENMP)
template <class Program>
void run_on_threads(std::int64_t count, const launch& how, std::byte* memory,
                    std::int64_t memory_each, int thread_count, Program& program) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
#pragma omp parallel num_threads(thread_count) default(none) \
    shared(count, how, memory, memory_each, program, next, failed, failure)
  {
    // An exception must not leave the region: the first one is kept and thrown after it.
    try {
      const std::int64_t thread = omp_get_thread_num();
      const std::int64_t all = omp_get_num_threads();
      std::byte* own = memory == nullptr ? nullptr : memory + thread * memory_each;
      if (how.how == sharing::equal) {
        const std::int64_t end = count / all * (thread + 1) + std::min(count % all, thread + 1);
        for (std::int64_t i = count / all * thread + std::min(count % all, thread); i < end; ++i) {
          host_team team(own, how.scratch_bytes);
          program(team, i);
        }
      } else {
        for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
          host_team team(own, how.scratch_bytes);
          program(team, i);
        }
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}
#endif

}  // namespace detail

/// Runs program(team, i) for i = 0 .. count-1, which must not depend on one another: on the rank's
/// device, or over the threads that `threads()` allows. All kernels reach memory, threads and
/// device through here alone. In a dry run for shapes the scratch is counted and no program runs.
/// Errors: failed on a device for which the program was not compiled.
/// Thread-safety: may be called from many threads at once; each uses threads of its own.
template <class Program>
void for_each_team(std::int64_t count, const launch& how, Program&& program) {
  if (count <= 0) return;
  if (device::of_this_rank() != nullptr) {
    if constexpr (device_program<std::remove_cvref_t<Program>>) {
      return for_each_device_team(count, how, program);
    } else {
      throw error(error_kind::failed,
                  "kernel: a program without a name was launched on a device; it runs on the host "
                  "alone: compute there, or make it a device_program");
    }
  }
  std::int64_t thread_count = detail::threads_for(count, how.elements_each);
#if !defined(_OPENMP)
  thread_count = 1;
#endif
  // The scratch of all threads is made here, since the meter belongs to the launching thread.
  const std::int64_t memory_each = host_team::scratch_bytes<std::byte>(how.scratch_bytes);
  buffer<std::byte> memory(memory_each * thread_count);
  if (shapes_only::active()) return;
#if defined(_OPENMP)
  if (thread_count > 1) {
    detail::run_on_threads(count, how, memory.data(), memory_each, static_cast<int>(thread_count),
                           program);
    return;
  }
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    host_team team(memory.data(), how.scratch_bytes);
    program(team, i);
  }
}

/// A program over ranges as a program over numbers.
template <class Program>
struct in_ranges {
  Program program;
  std::int64_t count;
  std::int64_t piece;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t begin = i * piece;
    program(team, begin, begin + piece < count ? begin + piece : count);
  }
};
/// The same of a program that a device may run.
template <device_program Program>
struct in_ranges<Program> {
  static constexpr std::string_view name = Program::name;
  static constexpr int threads = threads_of<Program>;
  static constexpr int teams_at_once = teams_at_once_of<Program>;
  Program program;
  std::int64_t count;
  std::int64_t piece;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t begin = i * piece;
    program(team, begin, begin + piece < count ? begin + piece : count);
  }
};

/// Runs program(team, begin, end) over ranges that together are 0 .. count-1, each of at most
/// `piece` (1 or more) but the last of exactly as many.
template <class Program>
void for_each_range(std::int64_t count, std::int64_t piece, const launch& how, Program&& program) {
  const std::int64_t pieces = (count + piece - 1) / piece;
  if constexpr (device_program<std::remove_cvref_t<Program>>) {
    for_each_team(pieces, how, in_ranges<std::remove_cvref_t<Program>>{program, count, piece});
  } else {
    for_each_team(pieces, how, in_ranges<Program&>{program, count, piece});
  }
}

}  // namespace tenon::inline v0::kernel
