// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cuda_runtime_api.h>)
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenon/base/check.hpp"
#include "tenon/base/checks.hpp"
#include "tenon/memory/cuda/stream.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0 {

/// The GPUs that this process sees; 0 where there is none, or no driver.
inline int cuda_devices() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// A GPU as one rank uses it: one stream for kernels and copies, and CUDA's pool of memory in the
/// order of that stream, which keeps what is freed. With TENON_CHECK=device every call waits until
/// it is done and throws what went wrong where it went wrong.
/// Errors: failed with CUDA's own words.
/// Thread-safety: none; it belongs to one rank's thread.
class cuda_device final : public device {
 public:
  explicit cuda_device(int number)
      : device(device_kind::cuda), number_(chosen(number)), checked_(checks_for("device")) {
    check_cuda(cudaGetDeviceProperties(&properties_, number), "cudaGetDeviceProperties");
    cudaMemPool_t pool{};
    check_cuda(cudaDeviceGetDefaultMemPool(&pool, number), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep_all = ~std::uint64_t{0};
    check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
               "cudaMemPoolSetAttribute");
  }
  ~cuda_device() override {
    cudaStreamSynchronize(stream_.get());
    for (auto& [bytes, blocks] : pinned_) {
      for (void* block : blocks) cudaFreeHost(block);
    }
  }

  std::string name() const override { return joined(properties_.name, " (device ", number_, ")"); }
  int number() const noexcept { return number_; }
  const cudaDeviceProp& properties() const noexcept { return properties_; }
  cuda_stream& stream() noexcept { return stream_; }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMallocAsync(&memory, bytes, stream_.get());
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw error(error_kind::failed, joined(name(), ": no memory for ", bytes,
                                             " bytes more; use smaller sizes or more ranks"));
    }
    check_cuda(status, "cudaMallocAsync");
    return memory;
  }
  void free(void* memory, std::size_t /*bytes*/) noexcept override {
    cudaFreeAsync(memory, stream_.get());
  }
  /// Blocks of pinned memory are kept: to pin pages takes far longer than to copy them.
  void* allocate_pinned(std::size_t bytes) override {
    auto& kept = pinned_[bytes];
    if (!kept.empty()) {
      void* block = kept.back();
      kept.pop_back();
      return block;
    }
    void* block = nullptr;
    check_cuda(cudaMallocHost(&block, bytes), "cudaMallocHost");
    return block;
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept override {
    pinned_[bytes].push_back(memory);
  }

  void copy_in(void* to, const void* from, std::size_t bytes) override {
    // Pageable memory is staged by CUDA before the call returns; pinned memory is waited for here.
    queue(to, from, bytes, cudaMemcpyHostToDevice);
    cudaPointerAttributes about{};
    if (cudaPointerGetAttributes(&about, from) == cudaSuccess && about.type == cudaMemoryTypeHost) {
      stream_.synchronize();
    }
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    queue(to, from, bytes, cudaMemcpyDeviceToHost);
    stream_.synchronize();
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    queue(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  void fill_with_zeros(void* memory, std::size_t bytes) override {
    check_cuda(cudaMemsetAsync(memory, 0, bytes, stream_.get()), "cudaMemsetAsync");
    done("cudaMemsetAsync");
  }
  void synchronize() override { stream_.synchronize(); }

  /// After a call: with TENON_CHECK=device it has ended well when this returns.
  void done(const char* call) {
    check_cuda(cudaGetLastError(), call);
    if (checked_) check_cuda(cudaStreamSynchronize(stream_.get()), call);
  }

 private:
  static int chosen(int number) {
    const int count = cuda_devices();
    require(number >= 0 && number < count, "cuda_device: device ", number,
            " was asked for and this process sees ", count,
            count == 0 ? "; compute on the host: --device host" : "; ask for one of those");
    check_cuda(cudaSetDevice(number), "cudaSetDevice");
    return number;
  }
  void queue(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "cudaMemcpyAsync");
    done("cudaMemcpyAsync");
  }

  int number_;
  bool checked_;
  cudaDeviceProp properties_{};
  cuda_stream stream_;
  std::map<std::size_t, std::vector<void*>> pinned_;  // free blocks by size
};

}  // namespace tenon::inline v0
#endif
