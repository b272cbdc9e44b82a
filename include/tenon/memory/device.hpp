// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tenon::inline v0 {

/// What a device is: the kernels are compiled for each kind apart.
enum class device_kind : std::uint8_t {
  cuda,      ///< a GPU
  emulated,  ///< lanes as fibres of the host, for tests: see kernel/team/emulated_team.hpp
};
inline constexpr int device_kinds = 2;

/// Where memory lies.
enum class place : std::uint8_t {
  rank,    ///< where the rank computes: on its device, or on the host when it has none
  host,    ///< on the host
  pinned,  ///< on the host, and a device may copy it without waiting
};

/// A processor with memory of its own, as one rank uses it. Everything is in the order of one
/// stream: a call returns when the work is queued, unless it says that it waits. A rank that has no
/// device computes on the host.
/// Errors: failed when the device has no memory left, or when it reports an earlier error.
/// Thread-safety: none; it belongs to one rank's thread.
class device {
 public:
  virtual ~device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  device_kind kind() const noexcept { return kind_; }
  /// For tables and messages: "NVIDIA H200 (device 0)".
  virtual std::string name() const = 0;

  /// Memory on the device, a multiple of 256 in address; from a pool, in the order of the stream.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* memory, std::size_t bytes) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void free_pinned(void* memory, std::size_t bytes) noexcept = 0;

  /// From the host; returns when `from` may be changed.
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  /// To the host; waits for it, and for all that was queued before.
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  /// Within the device.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill_with_zeros(void* memory, std::size_t bytes) = 0;
  /// Waits for all that was queued.
  virtual void synchronize() = 0;

  /// The device of the rank that this thread plays, or null: it computes on the host.
  static device* of_this_rank() noexcept { return current(); }

 protected:
  explicit device(device_kind kind) noexcept : kind_(kind) {}

 private:
  friend class computes_on;
  static device*& current() noexcept {
    thread_local device* of_rank = nullptr;
    return of_rank;
  }

  device_kind kind_;
};

/// While it lives, the rank that this thread plays computes on the device, or, with null, on the
/// host. Buffers keep where they were made; kernels and moves take those of the present one.
class computes_on {
 public:
  explicit computes_on(device* target) noexcept
      : before_(std::exchange(device::current(), target)) {}
  ~computes_on() { device::current() = before_; }
  computes_on(const computes_on&) = delete;
  computes_on& operator=(const computes_on&) = delete;

 private:
  device* before_;
};

}  // namespace tenon::inline v0
