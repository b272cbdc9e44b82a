// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tenon/kernel/team/fibres.hpp"
#include "tenon/kernel/team/lanes.hpp"
#include "tenon/kernel/team/tiles.hpp"

namespace tenon::inline v0::kernel {

/// What the lanes of one emulated team share.
template <int Threads>
struct emulated_shared {
  fibres* lanes = nullptr;
  std::byte* memory = nullptr;  ///< scratch
  std::int64_t bytes = 0;
  alignas(16) std::array<std::byte, std::size_t{8} * (Threads / warp_lanes)> exchange{};
  /// What a lane shows the others of its warp.
  struct alignas(16) shown {
    std::byte bytes[32];
  };
  std::array<shown, Threads> registers{};
};

/// One lane of a team that stands for a block of a device, on the host: the same code as
/// `device_team`, with fibres for lanes. A tool of tests, not a fast path.
/// Thread-safety: it belongs to the thread that runs its fibres.
template <int Threads>
class emulated_team : public lanes<emulated_team<Threads>, Threads> {
 public:
  emulated_team(emulated_shared<Threads>& all, int lane) noexcept : all_(&all), lane_(lane) {}

  std::int64_t rank() const noexcept { return lane_; }
  void barrier() const { all_->lanes->barrier(); }
  void warp_barrier() const { all_->lanes->warp_barrier(); }

  /// The value of the lane whose number in the warp differs in the bits of `mask`.
  template <class T>
  T shuffle_xor(T value, int mask) const {
    return shuffled(value, lane_ ^ mask);
  }
  /// The value of another lane of the warp.
  template <class T>
  T shuffle(T value, int from) const {
    return shuffled(value, lane_ / warp_lanes * warp_lanes + from);
  }

  /// sum += left x right, see tiles.hpp. All lanes of the warp call it.
  void multiply_tile(sum_tile<>& sum, const left_tile& left, const right_tile& right) const {
    struct operands {
      left_tile left;
      right_tile right;
    };
    const operands own{left, right};
    std::memcpy(shown_by(lane_), &own, sizeof own);
    warp_barrier();
    const int warp_begin = lane_ / warp_lanes * warp_lanes;
    const int g = lane_ % warp_lanes / 4;
    const int t = lane_ % 4;
    const auto of = [&](int lane) {
      return reinterpret_cast<const operands*>(shown_by(warp_begin + lane));
    };
    for (int k = 0; k < 16; ++k) {
      const int holder = k / 2 % 4;  // of column k of left, of row k of right
      for (int i = 0; i < 4; ++i) {
        const bf16 a = of(4 * g + holder)->left.values[k % 2 + k / 8 * 4 + i / 2 * 2];
        const bf16 b = of(4 * (2 * t + i % 2) + holder)->right.values[k % 2 + k / 8 * 2];
        sum.values[i] += widen(a) * widen(b);
      }
    }
    warp_barrier();
  }

  std::byte* exchange() const noexcept { return all_->exchange.data(); }

  /// Memory for n elements that all lanes share, 64-byte aligned, until the program ends. All lanes
  /// ask alike.
  template <class T>
  T* scratch(std::int64_t n) {
    const std::int64_t begin = used_;
    used_ += (n * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    require(used_ <= all_->bytes, "emulated_team: ", used_, " bytes of scratch were asked for and ",
            all_->bytes, " were given; give the launch more");
    return reinterpret_cast<T*>(all_->memory + begin);
  }

 private:
  template <class T>
  T shuffled(T value, int from) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16,
                  "team: a value to shuffle is wider than 16 bytes; shuffle its parts");
    std::memcpy(shown_by(lane_), &value, sizeof value);
    warp_barrier();
    T other;
    std::memcpy(&other, shown_by(from), sizeof other);
    warp_barrier();
    return other;
  }

  std::byte* shown_by(int lane) const noexcept {
    return all_->registers[static_cast<std::size_t>(lane)].bytes;
  }

  emulated_shared<Threads>* all_;
  int lane_;
  std::int64_t used_ = 0;
};

}  // namespace tenon::inline v0::kernel
