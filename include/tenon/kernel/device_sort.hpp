// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__CUDACC__)
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <span>

#include "tenon/kernel/device_services.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/cuda_device.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

inline void cuda_sort(device& target, std::span<std::int32_t> keys, std::span<std::int32_t> values,
                      std::int32_t largest) {
  const auto count = static_cast<std::int64_t>(keys.size());
  buffer<std::int32_t> other_keys(count);
  buffer<std::int32_t> other_values(count);
  cub::DoubleBuffer<std::int32_t> both_keys(keys.data(), other_keys.data());
  cub::DoubleBuffer<std::int32_t> both_values(values.data(), other_values.data());
  const int bits = std::bit_width(static_cast<std::uint32_t>(largest) | 1U);
  const cudaStream_t stream = static_cast<cuda_device&>(target).stream().get();
  const auto sort = [&](void* memory, std::size_t& bytes) {
    check_cuda(cub::DeviceRadixSort::SortPairs(memory, bytes, both_keys, both_values, count, 0,
                                               bits, stream),
               "cub::DeviceRadixSort::SortPairs");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  buffer<std::byte> memory(static_cast<std::int64_t>(bytes));
  sort(memory.data(), bytes);
  copy_bytes(keys.data(), both_keys.Current(), count * 4);
  copy_bytes(values.data(), both_values.Current(), count * 4);
}

}  // namespace detail

/// Sorts on GPUs are CUB's radix sort.
inline void enter_cuda_sort() { device_services::of(device_kind::cuda).sort = &detail::cuda_sort; }

}  // namespace tenon::inline v0::kernel
#endif
