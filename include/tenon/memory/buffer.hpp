// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/meter.hpp"

namespace tenon::inline v0 {

/// Memory, owned: `size` elements, 64-byte aligned, not initialised, counted by the rank's
/// `memory_meter`. By default it lies where the rank computes, see `device`; on a device no element
/// may be touched by the host, only copied. It can be moved, and copied only by name (`copy_of`).
/// Thread-safety: as a std::vector.
template <storable T>
class buffer {
 public:
  buffer() = default;
  explicit buffer(std::int64_t size, place where = place::rank) : size_(size), where_(where) {
    require(size >= 0, "buffer: ", size, " elements were asked for; ask for none or more");
    auto& meter = memory_meter::of_this_rank();
    if (size > 0 && !meter.shapes_only) {
      constexpr std::int64_t most = (std::int64_t{1} << 62) / static_cast<std::int64_t>(sizeof(T));
      if (size > most) throw std::bad_alloc();
      allocate(static_cast<std::size_t>(size) * sizeof(T));
    }
    meter.add(bytes());
  }
  /// `size` elements, all zero.
  static buffer zeros(std::int64_t size, place where = place::rank) {
    buffer fresh(size, where);
    fresh.fill_with_zeros();
    return fresh;
  }
  buffer(buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        where_(other.where_),
        device_(other.device_) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(where_, other.where_);
    std::swap(device_, other.device_);
    other.release();
    return *this;
  }
  ~buffer() { release(); }

  buffer copy_of() const {
    buffer fresh(size_, where_);
    if (data_ == nullptr) return fresh;
    if (lies_on_device()) {
      device_->copy(fresh.data_, data_, static_cast<std::size_t>(bytes()));
    } else {
      std::memcpy(static_cast<void*>(fresh.data_), data_, static_cast<std::size_t>(bytes()));
    }
    return fresh;
  }
  void fill_with_zeros() {
    if (data_ == nullptr) return;
    if (lies_on_device()) {
      device_->fill_with_zeros(data_, static_cast<std::size_t>(bytes()));
    } else {
      std::memset(static_cast<void*>(data_), 0, static_cast<std::size_t>(bytes()));
    }
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  std::int64_t bytes() const noexcept { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  std::span<T> span() noexcept {
    return {data_, data_ == nullptr ? 0 : static_cast<std::size_t>(size_)};
  }
  std::span<const T> span() const noexcept {
    return {data_, data_ == nullptr ? 0 : static_cast<std::size_t>(size_)};
  }
  T& operator[](std::int64_t i) noexcept { return data_[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_[i]; }

 private:
  bool lies_on_device() const noexcept { return device_ != nullptr && where_ == place::rank; }

  void allocate(std::size_t bytes) {
    device_ = where_ == place::host ? nullptr : device::of_this_rank();
    if (device_ != nullptr) {
      block_ = where_ == place::rank ? device_->allocate(bytes) : device_->allocate_pinned(bytes);
      data_ = static_cast<T*>(block_);
      return;
    }
    // glibc's aligned_alloc takes no block back from the cache of freed ones; its malloc does.
    block_ = std::malloc(bytes + alignment);
    if (block_ == nullptr) {
      throw error(error_kind::failed, joined("buffer: no memory for ", bytes,
                                             " bytes; use smaller sizes or more ranks"));
    }
    std::size_t room = bytes + alignment;
    void* aligned = block_;
    data_ = static_cast<T*>(std::align(alignment, bytes, aligned, room));
  }
  void release() noexcept {
    if (size_ != 0) memory_meter::of_this_rank().add(-bytes());
    if (device_ == nullptr) {
      std::free(block_);
    } else if (block_ != nullptr) {
      const auto size = static_cast<std::size_t>(bytes());
      where_ == place::rank ? device_->free(block_, size) : device_->free_pinned(block_, size);
    }
    block_ = nullptr;
    data_ = nullptr;
    size_ = 0;
  }

  static constexpr std::size_t alignment = 64;

  void* block_ = nullptr;  // as malloc gave it; the data begin in it at the next multiple of 64
  T* data_ = nullptr;
  std::int64_t size_ = 0;
  place where_ = place::rank;
  device* device_ = nullptr;  // that gave the block; null: the host
};

}  // namespace tenon::inline v0
