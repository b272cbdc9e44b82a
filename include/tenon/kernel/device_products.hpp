// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "tenon/kernel/device_services.hpp"
#include "tenon/memory/cuda_device.hpp"

namespace tenon::inline v0::kernel {

/// How fp32 products are computed on a GPU.
enum class fp32_products : std::uint8_t {
  exact,  ///< every product and sum in fp32
  tf32,   ///< operands rounded to 10 bits of fraction on the way into the tensor cores
};

namespace detail {

inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(error_kind::failed,
              joined("cuBLASLt: ", call, ": ", cublasLtGetStatusString(status)));
}

/// The products of one GPU through cuBLASLt: its handle, its workspace, and the algorithm that its
/// heuristic chose for each shape that came by.
///
/// Matrices here are row-major and there column-major, which is the transpose: for C = op(A) op(B)
/// it is asked for C' = op(B)' op(A)'.
/// Thread-safety: none; it belongs to the rank's thread.
class cublas_products {
 public:
  explicit cublas_products(cuda_device& gpu) : gpu_(&gpu) {
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    workspace_ = gpu.allocate(workspace_bytes);
  }
  ~cublas_products() { cublasLtDestroy(handle_); }  // the workspace ends with the pool
  cublas_products(const cublas_products&) = delete;
  cublas_products& operator=(const cublas_products&) = delete;

  static cublas_products& of(cuda_device& gpu) {
    thread_local std::map<const cuda_device*, std::unique_ptr<cublas_products>> all;
    auto& one = all[&gpu];
    if (one == nullptr) one = std::make_unique<cublas_products>(gpu);
    return *one;
  }

  fp32_products fp32_form = fp32_products::exact;

  void multiply(const product_call& call) {
    if (call.m == 0 || call.n == 0) return;
    if (call.k == 0) {
      if (call.how == output::accumulate) return;
      const auto width = static_cast<std::size_t>(call.n * bytes_of(call.result));
      check_cuda(
          cudaMemset2DAsync(call.c, static_cast<std::size_t>(call.c_stride * bytes_of(call.result)),
                            0, width, static_cast<std::size_t>(call.m), gpu_->stream().get()),
          "cudaMemset2DAsync");
      return;
    }
    plan& chosen = plan_of(call);
    const double one = 1;
    const double beta = call.how == output::accumulate ? 1 : 0;
    const auto one_single = static_cast<float>(one);
    const auto beta_single = static_cast<float>(beta);
    const bool wide = call.operands == element_kind::fp64;
    check_cublas(
        cublasLtMatmul(handle_, chosen.operation,
                       wide ? static_cast<const void*>(&one) : &one_single, call.b, chosen.b,
                       call.a, chosen.a, wide ? static_cast<const void*>(&beta) : &beta_single,
                       call.c, chosen.c, call.c, chosen.c, &chosen.algorithm, workspace_,
                       workspace_bytes, gpu_->stream().get()),
        "cublasLtMatmul");
    gpu_->done("cublasLtMatmul");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  /// What cuBLASLt knows of one shape.
  struct plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    plan() = default;
    plan(const plan&) = delete;
    plan& operator=(const plan&) = delete;
    ~plan() {
      if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
      if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
      if (c != nullptr) cublasLtMatrixLayoutDestroy(c);
      if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }
  };
  // Sizes, strides, forms and elements, and how far the addresses are aligned.
  using key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, int, int>;

  static int alignment_of(const void* data) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    int bytes = 256;
    while (bytes > 1 && at % static_cast<std::uintptr_t>(bytes) != 0) bytes /= 2;
    return bytes;
  }
  static cudaDataType_t type_of(element_kind kind) noexcept {
    if (kind == element_kind::fp64) return CUDA_R_64F;
    return kind == element_kind::fp32 ? CUDA_R_32F : CUDA_R_16BF;
  }

  plan& plan_of(const product_call& call) {
    const int least = std::min({alignment_of(call.a), alignment_of(call.b), alignment_of(call.c)});
    const int forms = (call.a_form == orientation::transposed ? 1 : 0) +
                      (call.b_form == orientation::transposed ? 2 : 0) +
                      (call.how == output::accumulate ? 4 : 0) +
                      8 * static_cast<int>(call.operands) + 64 * static_cast<int>(call.result) +
                      512 * static_cast<int>(fp32_form);
    auto& found =
        plans_[{call.m, call.n, call.k, call.a_stride, call.b_stride, call.c_stride, forms, least}];
    if (found == nullptr) found = made(call, least);
    return *found;
  }

  std::unique_ptr<plan> made(const product_call& call, int alignment) {
    auto fresh = std::make_unique<plan>();
    const bool ta = call.a_form == orientation::transposed;
    const bool tb = call.b_form == orientation::transposed;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    if (call.operands == element_kind::fp64) compute = CUBLAS_COMPUTE_64F;
    if (call.operands == element_kind::fp32 && fp32_form == fp32_products::tf32) {
      compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    }
    const cudaDataType_t scale = call.operands == element_kind::fp64 ? CUDA_R_64F : CUDA_R_32F;
    check_cublas(cublasLtMatmulDescCreate(&fresh->operation, compute, scale),
                 "cublasLtMatmulDescCreate");
    const cublasOperation_t first = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(fresh->operation, CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(fresh->operation, CUBLASLT_MATMUL_DESC_TRANSB, second);
    const cudaDataType_t operand = type_of(call.operands);
    fresh->b = layout(operand, tb ? call.k : call.n, tb ? call.n : call.k, call.b_stride);
    fresh->a = layout(operand, ta ? call.m : call.k, ta ? call.k : call.m, call.a_stride);
    fresh->c = layout(type_of(call.result), call.n, call.m, call.c_stride);

    cublasLtMatmulPreference_t wishes = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    const auto aligned = static_cast<std::uint32_t>(alignment);
    wish(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    wish(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned);
    wish(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned);
    wish(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned);
    wish(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, fresh->operation, fresh->b, fresh->a, fresh->c,
                                       fresh->c, wishes, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(wishes);
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
      throw error(error_kind::failed,
                  joined("cuBLASLt: no algorithm for a product of ", call.m, " x ", call.k, " and ",
                         call.k, " x ", call.n, " in ", name_of(call.operands)));
    }
    fresh->algorithm = best.algo;
    return fresh;
  }

  template <class Value>
  static void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what,
                  const Value& value) {
    check_cublas(cublasLtMatmulDescSetAttribute(operation, what, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  template <class Value>
  static void wish(cublasLtMatmulPreference_t wishes, cublasLtMatmulPreferenceAttributes_t what,
                   const Value& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(wishes, what, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  static cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                       std::int64_t stride) {
    cublasLtMatrixLayout_t fresh = nullptr;
    check_cublas(cublasLtMatrixLayoutCreate(&fresh, type, static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns), stride),
                 "cublasLtMatrixLayoutCreate");
    return fresh;
  }

  cuda_device* gpu_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<key, std::unique_ptr<plan>> plans_;
};

inline void cuda_product(device& target, const product_call& call) {
  cublas_products::of(static_cast<cuda_device&>(target)).multiply(call);
}

}  // namespace detail

/// Products on GPUs go through cuBLASLt.
inline void enter_cuda_products() {
  device_services::of(device_kind::cuda).product = &detail::cuda_product;
}

}  // namespace tenon::inline v0::kernel
#endif
