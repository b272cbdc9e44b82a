// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__CUDACC__)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/team/device_entry.hpp"
#include "tenon/kernel/team/device_team.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/cuda_device.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// Blocks take programs i, i + blocks, ...: a grid has fewer blocks than 2^31, and where scratch
/// lies beyond shared memory, as many as there is scratch for.
template <class Program, int Threads>
__global__ void __launch_bounds__(Threads, teams_at_once_of<Program>)
    run_teams(const __grid_constant__ Program program, std::int64_t count, std::int64_t beyond_each,
              std::byte* beyond) {
  extern __shared__ __align__(64) std::byte shared[];
  __shared__ __align__(16) std::byte exchange[8 * (Threads / warp_lanes)];
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    device_team<Threads> team(beyond == nullptr ? shared : beyond + blockIdx.x * beyond_each,
                              exchange);
    program(team, i);
    __syncthreads();  // the next program writes where this one may still read
  }
}

template <class Program>
void launch_on_gpu(device& target, std::int64_t count, const launch& how, const Program& program) {
  constexpr int threads = threads_of<Program>;
  static_assert(sizeof(Program) <= 4000,
                "launch: the program is larger than a kernel's arguments; keep tables in memory");
  auto& gpu = static_cast<cuda_device&>(target);
  const std::int64_t scratch = (how.scratch_bytes + 63) / 64 * 64;
  const auto most_shared = static_cast<std::int64_t>(gpu.properties().sharedMemPerBlockOptin) -
                           8 * (threads / warp_lanes) - 1024;
  auto* function = &run_teams<Program, threads>;
  std::int64_t blocks = std::min<std::int64_t>(count, std::int64_t{1} << 30);
  const cudaStream_t stream = gpu.stream().get();
  if (scratch <= most_shared) {
    if (scratch > std::int64_t{40} << 10) {
      check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(scratch)),
                 "cudaFuncSetAttribute");
    }
    function<<<static_cast<unsigned>(blocks), threads, static_cast<std::size_t>(scratch), stream>>>(
        program, count, 0, nullptr);
  } else {
    blocks = std::min<std::int64_t>(blocks, 2 * gpu.properties().multiProcessorCount);
    buffer<std::byte> beyond(blocks * scratch);
    function<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(program, count, scratch,
                                                                    beyond.data());
  }
  gpu.done(std::string_view(Program::name).data());
}

}  // namespace detail

/// Compiles the programs for GPUs.
template <class... Programs>
void enter_cuda_programs(type_list<Programs...>) {
  ((device_entry<Programs>::launches[static_cast<int>(device_kind::cuda)] =
        &detail::launch_on_gpu<Programs>),
   ...);
}

}  // namespace tenon::inline v0::kernel
#endif
