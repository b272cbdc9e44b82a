// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// Throws failed, naming the call, unless a call of CUDA's runtime went well.
inline void check_cuda(cudaError_t status, const char* call, call_site site = call_site::here()) {
  if (status == cudaSuccess) return;
  throw error(error_kind::failed,
              joined("CUDA: ", call, ": ", cudaGetErrorString(status), " (",
                     cudaGetErrorName(status), ") at ", site.file, ":", site.line));
}

}  // namespace tenon::inline v0
#endif
