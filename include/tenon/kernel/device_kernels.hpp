// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/attention/on_device.hpp"
#include "tenon/kernel/emulated_services.hpp"
#include "tenon/kernel/programs.hpp"
#include "tenon/kernel/rows/programs.hpp"
#include "tenon/kernel/team/emulated_launch.hpp"

#if defined(__CUDACC__)
#include "tenon/kernel/team/device_launch.hpp"
#endif

// All kernels of the library for a kind of device. A unit that nvcc compiles instantiates
//
//   template void tenon::kernel::enter_cuda_kernels<tenon::bf16>();
//   template void tenon::kernel::enter_cuda_attention<tenon::bf16>();
//
// and a program, compiled by whatever compiler, calls them at its start: its kernels then run where
// its ranks compute.
namespace tenon::inline v0::kernel {

/// Enters the kernels for tensors of E, but for attention, which takes as long to compile.
template <element E>
void enter_cuda_kernels();
template <element E>
void enter_cuda_attention();

namespace detail {

template <element E>
using all_programs = concatenated_t<element_programs<E>, row_programs<E>, cut_norm_programs<E>,
                                    expert_programs<E>, sum_programs<wide<E>>, plain_programs>;

/// f(list) for each list of attention's programs for E.
template <element E, class F>
void for_each_attention(F&& f) {
  f(attention_inner_programs<E>{});
  f(attention_programs<E, E, 64>{});
  if constexpr (widest_head < E >> 64) f(attention_programs<E, E, 128>{});
  if constexpr (!std::is_same_v<E, wide<E>>) {
    f(attention_programs<E, wide<E>, 64>{});
    f(attention_programs<E, wide<E>, 128>{});
  }
}

}  // namespace detail

#if defined(__CUDACC__)
template <element E>
void enter_cuda_kernels() {
  enter_cuda_programs(detail::all_programs<E>{});
}
template <element E>
void enter_cuda_attention() {
  detail::for_each_attention<E>([](auto list) { enter_cuda_programs(list); });
}
#endif

/// Enters all kernels and services of emulated devices for tensors of E.
template <element E>
void enter_emulated_kernels() {
  enter_emulated_services();
  enter_emulated_programs(detail::all_programs<E>{});
  detail::for_each_attention<E>([](auto list) { enter_emulated_programs(list); });
}

}  // namespace tenon::inline v0::kernel
