// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/team/device_entry.hpp"
#include "tenon/kernel/team/emulated_team.hpp"
#include "tenon/memory/emulated_device.hpp"

namespace tenon::inline v0::kernel {

/// How emulated teams run; a thread has settings of its own.
struct emulation {
  lane_order order = lane_order::forward;
  static emulation& of_this_thread() noexcept {
    thread_local emulation settings;
    return settings;
  }
};

namespace detail {

/// Two warps already do all that many do; a program whose lanes have fixed places says so.
template <class Program>
inline constexpr int emulated_threads = threads_of<Program> < 64 ? threads_of<Program> : 64;
template <class Program>
requires(Program::lanes_have_places) inline constexpr int emulated_threads<Program> =
    Program::threads;

struct alignas(64) sixty_four_bytes {
  std::byte bytes[64];
};

template <int Threads>
fibres& fibres_of_this_thread() {
  thread_local fibres lanes(Threads);
  return lanes;
}

template <class Program>
void launch_emulated(device& target, std::int64_t count, const launch& how,
                     const Program& program) {
  constexpr int threads = emulated_threads<Program>;
  auto& memory = static_cast<emulated_device&>(target);
  {
    const emulated_device::opened now(memory);
    fibres& lanes = fibres_of_this_thread<threads>();
    // Exactly as long as asked for, so that AddressSanitizer sees who goes beyond.
    const auto bytes = static_cast<std::size_t>((how.scratch_bytes + 63) / 64 * 64);
    std::vector<sixty_four_bytes> scratch(bytes / sizeof(sixty_four_bytes));
    std::byte* const begin = reinterpret_cast<std::byte*>(scratch.data());
    const lane_order order = emulation::of_this_thread().order;
    for (std::int64_t i = 0; i < count; ++i) {
      emulated_shared<threads> shared;
      shared.lanes = &lanes;
      shared.memory = begin;
      shared.bytes = static_cast<std::int64_t>(bytes);
      if (bytes > 0) std::memset(begin, 0xff, bytes);  // NaNs
      const std::function<void(int)> one = [&](int lane) {
        emulated_team<threads> team(shared, lane);
        program(team, order == lane_order::backward ? count - 1 - i : i);
      };
      lanes.run(one, order);
    }
  }
  memory.check();
}

}  // namespace detail

/// Compiles the programs for emulated devices.
template <class... Programs>
void enter_emulated_programs(type_list<Programs...>) {
  ((device_entry<Programs>::launches[static_cast<int>(device_kind::emulated)] =
        &detail::launch_emulated<Programs>),
   ...);
}

}  // namespace tenon::inline v0::kernel
