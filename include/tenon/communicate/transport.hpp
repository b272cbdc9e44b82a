// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "tenon/base/check.hpp"
#include "tenon/communicate/call.hpp"
#include "tenon/communicate/pending.hpp"

namespace tenon::inline v0 {

/// One group of ranks and how bytes cross between them. The ranks of a group are 0 .. size() - 1;
/// all of them make the same calls in the same order. A transport neither counts nor checks: that
/// is the `communicator` above it. Errors are thrown as `error` naming rank, axis and call.
/// Thread-safety: none; a transport is used by one thread, the rank's.
class transport {
 public:
  virtual ~transport() = default;
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Collective: ranks that give an equal colour form a new group, ordered by key, then rank.
  virtual std::unique_ptr<transport> split(int color, int key) = 0;

  /// Makes the call and returns when this rank's part is done. Reductions are of fp32, fp64, int32
  /// and int64 by sum, maximum or minimum; the communicator builds the others from these calls.
  virtual void run(const request& call) = 0;

  /// Starts the call; the counts and texts of the request need not outlive this function, the
  /// buffers must.
  virtual pending start(const request& call) = 0;

  /// The bytes that the transport itself copied between ranks for this rank, by the rule of
  /// `bytes_crossing`; a transport that cannot know says -1.
  virtual std::int64_t copied_bytes() const noexcept { return -1; }

  /// After so many seconds a call that waits for another rank is an error; 0: never.
  virtual void set_timeout(double /*seconds*/) {}

 protected:
  transport(int rank, int size) noexcept : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

namespace detail {

inline const std::byte* at(const void* data, std::int64_t elements, element_kind kind) noexcept {
  return data == nullptr ? nullptr
                         : static_cast<const std::byte*>(data) + elements * bytes_of(kind);
}
inline std::byte* at(void* data, std::int64_t elements, element_kind kind) noexcept {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + elements * bytes_of(kind);
}

/// Copies elements unless the two are the same memory or nothing is to be copied.
inline void copy_elements(void* to, const void* from, std::int64_t count, element_kind kind,
                          place where = place::host) {
  if (count == 0 || to == from) return;
  const auto bytes = static_cast<std::size_t>(count * bytes_of(kind));
  if (device* target = device::of_this_rank(); target != nullptr && where == place::rank) {
    target->copy(to, from, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

/// What a call does on a group of one rank: its input is its result.
inline void run_on_one_rank(const request& r) {
  switch (r.call) {
    case collective::all_gather:
      return copy_elements(r.to, r.from, sum_of(r.to_counts), r.element, r.where);
    case collective::reduce_scatter:
      return copy_elements(r.to, r.from, sum_of(r.from_counts), r.element, r.where);
    case collective::all_to_all:
      return copy_elements(r.to, r.from, r.own_in_place ? 0 : sum_of(r.from_counts), r.element,
                           r.where);
    case collective::all_reduce:
      return copy_elements(r.to, r.from, r.count, r.element, r.where);
    case collective::send:
    case collective::receive:
      require(false, name_of(r.call), " on axis ", r.axis,
              ": there is no other rank; the axis has extent 1");
      return;
    case collective::barrier:
    case collective::broadcast:
    case collective::split:
      return;
  }
}

}  // namespace detail
}  // namespace tenon::inline v0
