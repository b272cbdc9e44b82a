// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "tenon/kernel/team/host_team.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0::kernel {

/// How the programs of a launch are shared out among the threads.
enum class sharing : std::uint8_t {
  equal,    ///< each thread takes one range of programs: for programs that all take as long
  as_free,  ///< a thread takes the next program when it has finished one
};

/// What a launch needs to know beside its program.
struct launch {
  /// Scratch of each team, see `host_team::scratch_bytes`.
  std::int64_t scratch_bytes = 0;
  /// About how many elements one program works on: small launches stay on one thread.
  std::int64_t elements_each = std::int64_t{1} << 20;
  sharing how = sharing::equal;
};

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

/// Runs program(team, i) for i = 0 .. count-1, which must not depend on one another, over the
/// threads that `threads()` allows. All kernels reach memory and threads through here alone. In a
/// dry run for shapes the scratch is counted and no program runs.
/// Thread-safety: may be called from many threads at once; each uses threads of its own.
template <class Program>
void for_each_team(std::int64_t count, const launch& how, Program&& program) {
  if (count <= 0) return;
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

/// Runs program(team, begin, end) over ranges that together are 0 .. count-1, each of at most
/// `piece` (1 or more) but the last of exactly as many.
template <class Program>
void for_each_range(std::int64_t count, std::int64_t piece, const launch& how, Program&& program) {
  const std::int64_t pieces = (count + piece - 1) / piece;
  for_each_team(pieces, how, [&](host_team& team, std::int64_t i) {
    program(team, i * piece, std::min(count, (i + 1) * piece));
  });
}

}  // namespace tenon::inline v0::kernel
