// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<cuda_runtime_api.h>)
#include <utility>

#include "tenon/memory/cuda/check.hpp"

namespace tenon::inline v0 {

/// A point in the order of a stream that other streams, or the host, can wait for. It measures no
/// time. Thread-safety: none.
class cuda_event {
 public:
  cuda_event() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  cuda_event(cuda_event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  cuda_event& operator=(cuda_event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~cuda_event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An order of work on a device, owned. It does not wait for the default stream.
/// Thread-safety: none.
class cuda_stream {
 public:
  cuda_stream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  cuda_stream(cuda_stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  cuda_stream& operator=(cuda_stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~cuda_stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const noexcept { return stream_; }

  /// What is queued here after this runs after all that is queued there now.
  void wait_for(const cuda_stream& other, cuda_event& by) {
    check_cuda(cudaEventRecord(by.get(), other.get()), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(stream_, by.get(), 0), "cudaStreamWaitEvent");
  }
  /// Waits, on the host, for all that is queued.
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace tenon::inline v0
#endif
