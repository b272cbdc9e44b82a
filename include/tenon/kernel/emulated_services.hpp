// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/kernel/device_services.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/kernel/sorted_rows.hpp"
#include "tenon/memory/emulated_device.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

template <class Operand, class Result>
void emulated_product_of(const product_call& call) {
  const bool ta = call.a_form == orientation::transposed;
  const bool tb = call.b_form == orientation::transposed;
  const matrix_view<const Operand> a{static_cast<const Operand*>(call.a), ta ? call.k : call.m,
                                     ta ? call.m : call.k, call.a_stride};
  const matrix_view<const Operand> b{static_cast<const Operand*>(call.b), tb ? call.n : call.k,
                                     tb ? call.k : call.n, call.b_stride};
  const matrix_view<Result> c{static_cast<Result*>(call.c), call.m, call.n, call.c_stride};
  product(c, a, call.a_form, b, call.b_form, call.how);
}

inline void emulated_product(device& target, const product_call& call) {
  const emulated_device::opened now(static_cast<emulated_device&>(target));
  const computes_on host(nullptr);
  const uncounted_memory beside;  // the device has a library in its place
  if (call.operands == element_kind::fp64) return emulated_product_of<fp64, fp64>(call);
  if (call.operands == element_kind::fp32) return emulated_product_of<fp32, fp32>(call);
  if (call.result == element_kind::fp32) return emulated_product_of<bf16, fp32>(call);
  emulated_product_of<bf16, bf16>(call);
}

inline void emulated_sort(device& target, std::span<std::int32_t> keys,
                          std::span<std::int32_t> values, std::int32_t largest) {
  const emulated_device::opened now(static_cast<emulated_device&>(target));
  const computes_on host(nullptr);
  const uncounted_memory beside;  // the device has a library in its place
  sort_pairs(keys, values, largest);
}

}  // namespace detail

/// Products on emulated devices are those of the host's BLAS, sorts those of its library.
inline void enter_emulated_services() {
  auto& services = device_services::of(device_kind::emulated);
  services.product = &detail::emulated_product;
  services.sort = &detail::emulated_sort;
}

}  // namespace tenon::inline v0::kernel
