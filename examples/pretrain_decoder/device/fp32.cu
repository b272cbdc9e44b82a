// SPDX-License-Identifier: Apache-2.0
#include "tenon/kernel/device_kernels.hpp"

template void tenon::kernel::enter_cuda_kernels<tenon::fp32>();
