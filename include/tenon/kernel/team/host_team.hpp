// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenon/base/check.hpp"
#include "tenon/kernel/team/arrays.hpp"

namespace tenon::inline v0::kernel {

/// The team of one lane: a thread of the host, whose loops the compiler vectorises. Kernels are
/// written against the members below, so that a team of many lanes (see lanes.hpp) runs the same
/// programs. What one lane writes another sees behind a `barrier`.
/// Thread-safety: a team belongs to the thread that runs it.
class host_team {
 public:
  /// Bytes of one load or store of a lane. A device team moves 16 at once; here the compiler
  /// chooses the width of its vectors by itself.
  static constexpr std::int64_t load_bytes = 16;
  /// Partial results that `reduce` keeps. A fixed number, wide enough for any vector unit: the
  /// order of a sum is then part of the kernel and not of the machine.
  static constexpr std::int64_t partials = 32;

  host_team(std::byte* memory, std::int64_t bytes) noexcept : memory_(memory), bytes_(bytes) {}

  static constexpr std::int64_t size() noexcept { return 1; }
  static constexpr std::int64_t rank() noexcept { return 0; }
  static constexpr void barrier() noexcept {}
  /// Calls f() on one lane: what a program stores once.
  template <class F>
  void once(F&& f) const {
    f();
  }

  /// Calls f(0) .. f(n-1), which must not depend on one another.
  template <class F>
  void for_each(std::int64_t n, F&& f) const {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC ivdep
#endif
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }

  /// op over f(0) .. f(n-1); `neutral` is the value that op leaves alone. The order is fixed: it
  /// depends on n and on nothing else.
  template <class T, class F, class Op>
  T reduce(std::int64_t n, T neutral, F&& f, Op&& op) const {
    T partial[partials];
    for (std::int64_t lane = 0; lane < partials; ++lane) partial[lane] = neutral;
    const std::int64_t rest = n % partials;
    for (std::int64_t i = 0; i < n - rest; i += partials) {
      for (std::int64_t lane = 0; lane < partials; ++lane) {
        partial[lane] = op(partial[lane], static_cast<T>(f(i + lane)));
      }
    }
    for (std::int64_t lane = 0; lane < rest; ++lane) {
      partial[lane] = op(partial[lane], static_cast<T>(f(n - rest + lane)));
    }
    for (std::int64_t half = partials / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) {
        partial[lane] = op(partial[lane], partial[lane + half]);
      }
    }
    return partial[0];
  }

  /// The sum of f(0) .. f(n-1).
  template <class T, class F>
  T sum(std::int64_t n, F&& f) const {
    return reduce(n, T{0}, f, [](T a, T b) { return a + b; });
  }

  /// f(element of each array) at 0 .. n-1, see arrays.hpp. The elements are independent.
  template <class F, class... Arrays>
  void apply(std::int64_t n, const F& f, Arrays... arrays) const {
    for_each(n, [=](std::int64_t i) { detail::apply_to_one(f, i, arrays...); });
  }
  /// op over f(element of each array), in the order of `reduce`.
  template <class T, class F, class Op, class... Arrays>
  T reduce_of(std::int64_t n, T neutral, const F& f, Op&& op, Arrays... arrays) const {
    return reduce(
        n, neutral, [=](std::int64_t i) { return f(detail::load_one(arrays, i)...); }, op);
  }
  /// The sum of f(element of each array).
  template <class T, class F, class... Arrays>
  T sum_of(std::int64_t n, const F& f, Arrays... arrays) const {
    return sum<T>(n, [=](std::int64_t i) { return f(detail::load_one(arrays, i)...); });
  }

  /// Memory for n elements, 64-byte aligned, until the team's program ends.
  template <class T>
  T* scratch(std::int64_t n) {
    const std::int64_t bytes = scratch_bytes<T>(n);
    if (used_ + bytes > bytes_) {
      throw error(error_kind::failed,
                  joined("host_team: ", used_ + bytes, " bytes of scratch were asked for and ",
                         bytes_, " were given; give the launch more"));
    }
    T* start = reinterpret_cast<T*>(memory_ + used_);
    used_ += bytes;
    return start;
  }

  /// What `scratch<T>(n)` takes of the bytes that a launch gives to each team.
  template <class T>
  static constexpr std::int64_t scratch_bytes(std::int64_t n) noexcept {
    return (n * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
  }

 private:
  std::byte* memory_;
  std::int64_t bytes_;
  std::int64_t used_ = 0;
};

}  // namespace tenon::inline v0::kernel
