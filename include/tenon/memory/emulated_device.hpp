// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <string>

#include "tenon/base/check.hpp"
#include "tenon/memory/device.hpp"

// AddressSanitizer's; null where it does not run.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* begin,
                                                       std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin,
                                                         std::size_t bytes);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace tenon::inline v0 {

/// A device without a GPU, for tests: its memory can be touched only while a kernel or a copy runs
/// (`opened`), so that host code which reads a tensor of the device ends with a segmentation fault.
/// Around each block lie bytes that nobody may write: `check` finds who did.
///
///   | guard | block, filled with NaNs | guard | block ... | guard |
///
/// Thread-safety: none; it belongs to one rank's thread.
class emulated_device final : public device {
 public:
  explicit emulated_device(std::size_t bytes = std::size_t{1} << 30)
      : device(device_kind::emulated), bytes_(bytes) {
    void* all =
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(all);
    free_[0] = bytes_;
  }
  ~emulated_device() override { munmap(memory_, bytes_); }

  std::string name() const override { return "the emulated device"; }

  void* allocate(std::size_t bytes) override {
    const std::size_t room = (bytes + 255) / 256 * 256 + 2 * guard;
    for (auto space = free_.begin(); space != free_.end(); ++space) {
      if (space->second < room) continue;
      const std::size_t at = space->first;
      if (space->second > room) free_[at + room] = space->second - room;
      free_.erase(space);
      blocks_[at] = bytes;
      const opened now(*this);
      allow(at, room);
      std::memset(memory_ + at, mark, room);
      std::memset(memory_ + at + guard, 0xff, bytes);
      forbid_guards(at, bytes, room);
      return memory_ + at + guard;
    }
    throw error(error_kind::failed, joined(name(), ": no memory for ", bytes, " bytes more"));
  }
  void free(void* memory, std::size_t /*bytes*/) noexcept override {
    const auto at = static_cast<std::size_t>(static_cast<std::byte*>(memory) - memory_) - guard;
    const auto block = blocks_.find(at);
    const std::size_t bytes = block->second;
    {
      const opened now(*this);
      overrun_ = overrun_ || !guards_are_whole(at, bytes);
    }
    blocks_.erase(block);
    give_back(at, (bytes + 255) / 256 * 256 + 2 * guard);
  }
  void* allocate_pinned(std::size_t bytes) override { return ::operator new(bytes); }
  void free_pinned(void* memory, std::size_t /*bytes*/) noexcept override {
    ::operator delete(memory);
  }

  void copy_in(void* to, const void* from, std::size_t bytes) override { moved(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { moved(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { moved(to, from, bytes); }
  void fill_with_zeros(void* memory, std::size_t bytes) override {
    const opened now(*this);
    std::memset(memory, 0, bytes);
  }
  void synchronize() override { check(); }

  /// Throws failed when something was written beside a block since the last look.
  void check() {
    const opened now(*this);
    for (const auto& [at, bytes] : blocks_) overrun_ = overrun_ || !guards_are_whole(at, bytes);
    if (!overrun_) return;
    overrun_ = false;
    throw error(error_kind::failed,
                joined(name(), ": a kernel wrote outside of the buffers that it was given"));
  }

  /// While it lives, the memory may be touched.
  class opened {
   public:
    explicit opened(emulated_device& of) noexcept : of_(of) {
      if (of_.openings_++ == 0) mprotect(of_.memory_, of_.bytes_, PROT_READ | PROT_WRITE);
    }
    ~opened() {
      if (--of_.openings_ == 0) mprotect(of_.memory_, of_.bytes_, PROT_NONE);
    }
    opened(const opened&) = delete;
    opened& operator=(const opened&) = delete;

   private:
    emulated_device& of_;
  };

 private:
  static constexpr std::size_t guard = 256;
  static constexpr int mark = 0xa5;

  void moved(void* to, const void* from, std::size_t bytes) {
    const opened now(*this);
    std::memcpy(to, from, bytes);
  }
  void allow(std::size_t at, std::size_t bytes) const {
    if (__asan_unpoison_memory_region != nullptr) {
      __asan_unpoison_memory_region(memory_ + at, bytes);
    }
  }
  void forbid_guards(std::size_t at, std::size_t bytes, std::size_t room) const {
    if (__asan_poison_memory_region == nullptr) return;
    __asan_poison_memory_region(memory_ + at, guard);
    __asan_poison_memory_region(memory_ + at + guard + bytes, room - guard - bytes);
  }
  bool guards_are_whole(std::size_t at, std::size_t bytes) const {
    if (__asan_poison_memory_region != nullptr) return true;  // it has looked at each access
    const std::byte* before = memory_ + at;
    const std::byte* after = before + guard + bytes;
    for (std::size_t i = 0; i < guard; ++i) {
      if (before[i] != std::byte{mark} || after[i] != std::byte{mark}) return false;
    }
    return true;
  }
  void give_back(std::size_t at, std::size_t bytes) noexcept {
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free_[at] = bytes;
  }

  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  std::map<std::size_t, std::size_t> free_;    // begin -> bytes
  std::map<std::size_t, std::size_t> blocks_;  // begin -> bytes asked for
  int openings_ = 0;
  bool overrun_ = false;
};

}  // namespace tenon::inline v0
