// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tenon/base/check.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/meter.hpp"

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

/// A program that a device may run: a value that names itself and copies its views, and that any
/// team can call. (A lambda that refers to what stands around it runs on the host alone.)
template <class Program>
concept device_program = std::is_trivially_copyable_v<Program> && requires {
  { Program::name } -> std::convertible_to<std::string_view>;
};

/// The lanes of a device's team for a program: what it says, or 128. A program that gives its lanes
/// places by this number says `static constexpr bool lanes_have_places = true` too.
template <class Program>
inline constexpr int threads_of = 128;
template <class Program>
requires requires { Program::threads; }
inline constexpr int threads_of<Program> = Program::threads;

/// Teams that should fit on a multiprocessor at once: what the program says, or 0, which leaves the
/// number of registers to the compiler.
template <class Program>
inline constexpr int teams_at_once_of = 0;
template <class Program>
requires requires { Program::teams_at_once; }
inline constexpr int teams_at_once_of<Program> = Program::teams_at_once;

/// Where the launch of a program on a kind of device is entered, by the unit that compiled it for
/// that kind. The same program is called by units that only the host's compiler has seen.
template <device_program Program>
struct device_entry {
  using function = void (*)(device&, std::int64_t count, const launch&, const Program&);
  inline static function launches[device_kinds] = {};

  static void run(device& target, std::int64_t count, const launch& how, const Program& program) {
    const function entered = launches[static_cast<int>(target.kind())];
    if (entered == nullptr) {
      throw error(
          error_kind::failed,
          joined("kernel ", std::string_view(Program::name), ": it was not compiled for ",
                 target.name(), "; enter it in a unit that is: enter_programs<type_list<...>>()"));
    }
    entered(target, count, how, program);
  }
};

/// Runs program(team, i) for i = 0 .. count-1 on the rank's device, which there must be: for
/// programs that only teams of many lanes can run. In a dry run for shapes nothing runs.
template <device_program Program>
void for_each_device_team(std::int64_t count, const launch& how, const Program& program) {
  if (count <= 0 || shapes_only::active()) return;
  device_entry<Program>::run(*device::of_this_rank(), count, how, program);
}

}  // namespace tenon::inline v0::kernel
