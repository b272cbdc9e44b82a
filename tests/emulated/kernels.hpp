// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/kernel/device_kernels.hpp"

// The kernels of each element, compiled once for emulated devices.
namespace tenon::inline v0::kernel {

extern template void enter_emulated_kernels<fp64>();
extern template void enter_emulated_kernels<fp32>();
extern template void enter_emulated_kernels<bf16>();

}  // namespace tenon::inline v0::kernel
