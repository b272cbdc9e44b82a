// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0::kernel {

/// One matrix product on a device, see `product`: C[m,n] = op(A) op(B), or C += that.
struct product_call {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  orientation a_form = orientation::as_stored;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  orientation b_form = orientation::as_stored;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  output how = output::overwrite;
  element_kind operands = element_kind::fp32;
  element_kind result = element_kind::fp32;
};

/// What a library does on a kind of device better than a kernel of ours would. Entered by the unit
/// that links with it.
struct device_services {
  void (*product)(device&, const product_call&) = nullptr;
  /// See `sort_pairs`.
  void (*sort)(device&, std::span<std::int32_t> keys, std::span<std::int32_t> values,
               std::int32_t largest) = nullptr;

  static device_services& of(device_kind kind) noexcept {
    static device_services all[device_kinds];
    return all[static_cast<int>(kind)];
  }
};

namespace detail {

inline void product_on_device(device& target, const product_call& call) {
  const auto enter = device_services::of(target.kind()).product;
  if (enter == nullptr) {
    throw error(error_kind::failed,
                joined("product: no library for products was entered for ", target.name(),
                       "; call enter_cuda_services() or enter_emulated_services() at the start"));
  }
  enter(target, call);
}

inline void sort_on_device(device& target, std::span<std::int32_t> keys,
                           std::span<std::int32_t> values, std::int32_t largest) {
  const auto enter = device_services::of(target.kind()).sort;
  if (enter == nullptr) {
    throw error(error_kind::failed,
                joined("sort_pairs: no sort was entered for ", target.name(),
                       "; call enter_cuda_sort() or enter_emulated_services() at the start"));
  }
  enter(target, keys, values, largest);
}

}  // namespace detail

}  // namespace tenon::inline v0::kernel
