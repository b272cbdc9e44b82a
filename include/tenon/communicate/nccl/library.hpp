// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <nccl.h>

#include <string>

#include "tenon/communicate/nccl/calls.hpp"
#include "tenon/memory/cuda_device.hpp"

namespace tenon::inline v0 {

/// NCCL itself, on GPUs: what `nccl_transport` calls. A program that uses it links with libnccl and
/// libcudart. Errors of CUDA are thrown, see check_cuda.
/// Thread-safety: none; it belongs to one rank's thread.
struct nccl_calls {
  using communicator = ncclComm_t;
  using unique_id = ncclUniqueId;
  using stream = cudaStream_t;
  using event = cudaEvent_t;
  using result = ncclResult_t;

  static nccl_answer answer_of(result r) noexcept {
    switch (r) {
      case ncclSuccess:
        return nccl_answer::done;
      case ncclInProgress:
        return nccl_answer::in_progress;
      case ncclRemoteError:
        return nccl_answer::lost_partner;
      default:
        return nccl_answer::failed;
    }
  }
  static std::string text_of(result r) { return ncclGetErrorString(r); }

  static result make_unique_id(unique_id& id) { return ncclGetUniqueId(&id); }
  static result begin(communicator& made, int ranks, const unique_id& id, int rank) {
    ncclConfig_t how = NCCL_CONFIG_INITIALIZER;
    how.blocking = 0;
    return ncclCommInitRankConfig(&made, ranks, id, rank, &how);
  }
  static result state_of(communicator c) {
    result state = ncclSuccess;
    const result asked = ncclCommGetAsyncError(c, &state);
    return asked == ncclSuccess ? state : asked;
  }
  static result finalize(communicator c) { return ncclCommFinalize(c); }
  static result destroy(communicator c) { return ncclCommDestroy(c); }
  static result abort(communicator c) { return ncclCommAbort(c); }
  static result group_start() { return ncclGroupStart(); }
  static result group_end() { return ncclGroupEnd(); }

  static result all_reduce(const void* from, void* to, std::size_t count, element_kind element,
                           reduction_kind by, communicator c, stream s) {
    return ncclAllReduce(from, to, count, type_of(element), operation_of(by), c, s);
  }
  static result reduce(const void* from, void* to, std::size_t count, element_kind element,
                       reduction_kind by, int root, communicator c, stream s) {
    return ncclReduce(from, to, count, type_of(element), operation_of(by), root, c, s);
  }
  static result reduce_scatter(const void* from, void* to, std::size_t count_of_each,
                               element_kind element, reduction_kind by, communicator c, stream s) {
    return ncclReduceScatter(from, to, count_of_each, type_of(element), operation_of(by), c, s);
  }
  static result broadcast(const void* from, void* to, std::size_t count, element_kind element,
                          int root, communicator c, stream s) {
    return ncclBroadcast(from, to, count, type_of(element), root, c, s);
  }
  static result all_gather(const void* from, void* to, std::size_t count_of_each,
                           element_kind element, communicator c, stream s) {
    return ncclAllGather(from, to, count_of_each, type_of(element), c, s);
  }
  static result send(const void* from, std::size_t count, element_kind element, int to,
                     communicator c, stream s) {
    return ncclSend(from, count, type_of(element), to, c, s);
  }
  static result receive(void* to, std::size_t count, element_kind element, int from, communicator c,
                        stream s) {
    return ncclRecv(to, count, type_of(element), from, c, s);
  }

  /// The GPU's UUID, which no other GPU of any machine has.
  static std::string identity_of(device& gpu) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const char byte : of(gpu).properties().uuid.bytes) {
      text += digits[(static_cast<unsigned char>(byte) >> 4) & 15];
      text += digits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
  }
  static stream compute_stream(device& gpu) { return of(gpu).stream().get(); }
  static stream make_stream(device& gpu) {
    check_cuda(cudaSetDevice(of(gpu).number()), "cudaSetDevice");
    stream made = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
    return made;
  }
  static void free_stream(stream s) noexcept { cudaStreamDestroy(s); }
  static event make_event() {
    event made = nullptr;
    check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
    return made;
  }
  static void free_event(event e) noexcept { cudaEventDestroy(e); }
  static void record(event e, stream s) { check_cuda(cudaEventRecord(e, s), "cudaEventRecord"); }
  static void wait(stream s, event e) {
    check_cuda(cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent");
  }
  static bool has_happened(event e) {
    const cudaError_t status = cudaEventQuery(e);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  static void copy(void* to, const void* from, std::size_t bytes, stream s) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s), "cudaMemcpyAsync");
  }

 private:
  static cuda_device& of(device& gpu) {
    require(gpu.kind() == device_kind::cuda, "nccl: ", gpu.name(),
            " is no GPU of CUDA; type --transport staged");
    return static_cast<cuda_device&>(gpu);
  }
  static ncclDataType_t type_of(element_kind kind) noexcept {
    switch (kind) {
      case element_kind::int32:
        return ncclInt32;
      case element_kind::int64:
        return ncclInt64;
      case element_kind::bf16:
        return ncclBfloat16;
      case element_kind::fp32:
        return ncclFloat32;
      case element_kind::fp64:
        return ncclFloat64;
      case element_kind::byte:
        break;
    }
    return ncclUint8;
  }
  static ncclRedOp_t operation_of(reduction_kind by) noexcept {
    switch (by) {
      case reduction_kind::maximum:
        return ncclMax;
      case reduction_kind::minimum:
        return ncclMin;
      case reduction_kind::sum:
      case reduction_kind::log_sum_exp:  // refused before, see nccl/issue.hpp
        break;
    }
    return ncclSum;
  }
};

static_assert(nccl_library<nccl_calls>);

}  // namespace tenon::inline v0
#endif
