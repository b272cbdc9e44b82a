// SPDX-License-Identifier: Apache-2.0
// One unit includes CUB: an include of it takes longer than any kernel.
#include "device.hpp"
#include "tenon/kernel/device_sort.hpp"

namespace pretrain_decoder {

void enter_gpu_sort() { tenon::kernel::enter_cuda_sort(); }

}  // namespace pretrain_decoder
