// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/base/host_device.hpp"
#include "tenon/kernel/team/lanes.hpp"
#include "tenon/kernel/team/tiles.hpp"

namespace tenon::inline v0::kernel {

#if defined(__CUDACC__)

/// One lane of a team that is a block of a GPU: `Threads` lanes, shared memory for scratch.
template <int Threads>
class device_team : public lanes<device_team<Threads>, Threads> {
 public:
  __device__ device_team(std::byte* memory, std::byte* exchange) noexcept
      : memory_(memory), exchange_(exchange) {}

#if defined(__CUDA_ARCH__)
  TENON_BOTH std::int64_t rank() const noexcept { return threadIdx.x; }
  TENON_BOTH void barrier() const { __syncthreads(); }
  TENON_BOTH void warp_barrier() const { __syncwarp(); }
  template <class T>
  TENON_BOTH T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  template <class T>
  TENON_BOTH T shuffle(T value, int from) const {
    return __shfl_sync(0xffffffffU, value, from);
  }
  /// sum += left x right on the tensor cores, see tiles.hpp. All lanes of the warp call it.
  TENON_BOTH void multiply_tile(sum_tile<>& sum, const left_tile& left,
                                const right_tile& right) const {
    std::uint32_t a[4];
    std::uint32_t b[2];
    std::memcpy(a, left.values, sizeof a);
    std::memcpy(b, right.values, sizeof b);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else  // the host's pass of the compiler only needs to see that they are there
  TENON_BOTH std::int64_t rank() const noexcept { return 0; }
  TENON_BOTH void barrier() const {}
  TENON_BOTH void warp_barrier() const {}
  template <class T>
  TENON_BOTH T shuffle_xor(T value, int) const {
    return value;
  }
  template <class T>
  TENON_BOTH T shuffle(T value, int) const {
    return value;
  }
  TENON_BOTH void multiply_tile(sum_tile<>&, const left_tile&, const right_tile&) const {}
#endif

  TENON_BOTH std::byte* exchange() const noexcept { return exchange_; }

  /// As `emulated_team::scratch`; the launch has seen to it that there is enough.
  template <class T>
  TENON_BOTH T* scratch(std::int64_t n) {
    T* start = reinterpret_cast<T*>(memory_ + used_);
    used_ += (n * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return start;
  }

 private:
  std::byte* memory_;
  std::byte* exchange_;
  std::int64_t used_ = 0;
};

#endif

}  // namespace tenon::inline v0::kernel
