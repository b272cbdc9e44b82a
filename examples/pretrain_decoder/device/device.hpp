// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tenon/base/element.hpp"
#include "tenon/memory/device.hpp"

// What the programs know of GPUs: implemented by gpu.cpp where CUDA was found when they were built,
// else by no_gpu.cpp.
namespace pretrain_decoder {

/// GPUs that this process sees.
int gpus_here() noexcept;

/// Why there are none, as the end of a sentence.
std::string why_no_gpu();

/// A GPU, with the kernels for the element entered. Errors: those of CUDA.
std::unique_ptr<tenon::device> make_gpu(int number, tenon::element_kind element);

/// Of a unit of its own.
void enter_gpu_sort();

}  // namespace pretrain_decoder
