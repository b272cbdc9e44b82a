// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device.hpp"
#include "tenon/kernel/device_kernels.hpp"
#include "tenon/kernel/device_products.hpp"
#include "tenon/memory/cuda_device.hpp"

namespace pretrain_decoder {

int gpus_here() noexcept { return tenon::cuda_devices(); }

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  return status == cudaSuccess
             ? std::string("CUDA sees no GPU on this machine")
             : tenon::joined("CUDA sees no GPU on this machine: ", cudaGetErrorString(status));
}

std::unique_ptr<tenon::device> make_gpu(int number, tenon::element_kind element) {
  auto gpu = std::make_unique<tenon::cuda_device>(number);
  tenon::kernel::enter_cuda_products();
  enter_gpu_sort();
  switch (element) {
    case tenon::element_kind::fp64:
      tenon::kernel::enter_cuda_kernels<tenon::fp64>();
      tenon::kernel::enter_cuda_attention<tenon::fp64>();
      break;
    case tenon::element_kind::bf16:
      tenon::kernel::enter_cuda_kernels<tenon::bf16>();
      tenon::kernel::enter_cuda_attention<tenon::bf16>();
      break;
    default:
      tenon::kernel::enter_cuda_kernels<tenon::fp32>();
      tenon::kernel::enter_cuda_attention<tenon::fp32>();
  }
  return gpu;
}

}  // namespace pretrain_decoder
