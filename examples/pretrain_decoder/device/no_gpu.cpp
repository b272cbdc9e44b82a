// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include "tenon/base/check.hpp"

namespace pretrain_decoder {

int gpus_here() noexcept { return 0; }

std::string why_no_gpu() { return "this program was built where CMake found no CUDA"; }

std::unique_ptr<tenon::device> make_gpu(int /*number*/, tenon::element_kind /*element*/) {
  throw tenon::error(tenon::error_kind::bad_request, why_no_gpu());
}

}  // namespace pretrain_decoder
