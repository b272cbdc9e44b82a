// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "tenon/base/check.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/meter.hpp"

// Copies between a rank's memory and the host. Where the rank computes on the host these are plain
// copies; in a dry run for shapes they are none.
namespace tenon::inline v0 {

namespace detail {
inline bool nothing_to_copy(const void* to, const void* from, std::int64_t bytes) noexcept {
  return bytes <= 0 || to == from || to == nullptr || from == nullptr || shapes_only::active();
}
template <class A, class B>
std::int64_t bytes_of_both(const A& to, const B& from) {
  require(to.size() == from.size() || shapes_only::active(),
          "copy: ", static_cast<std::int64_t>(from.size()), " elements were given for ",
          static_cast<std::int64_t>(to.size()), "; give as many");
  return static_cast<std::int64_t>(to.size_bytes());
}
}  // namespace detail

/// Within the rank's memory; the two do not overlap.
inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (detail::nothing_to_copy(to, from, bytes)) return;
  const auto size = static_cast<std::size_t>(bytes);
  if (device* target = device::of_this_rank()) return target->copy(to, from, size);
  std::memcpy(to, from, size);
}
/// Zeros in the rank's memory.
inline void fill_bytes_with_zeros(void* memory, std::int64_t bytes) {
  if (detail::nothing_to_copy(memory, &bytes, bytes)) return;
  const auto size = static_cast<std::size_t>(bytes);
  if (device* target = device::of_this_rank()) return target->fill_with_zeros(memory, size);
  std::memset(memory, 0, size);
}
/// From the host into the rank's memory.
template <class T>
void copy_in(std::span<T> to, std::span<const std::type_identity_t<T>> from) {
  const std::int64_t bytes = detail::bytes_of_both(to, from);
  if (detail::nothing_to_copy(to.data(), from.data(), bytes)) return;
  if (device* target = device::of_this_rank()) {
    return target->copy_in(to.data(), from.data(), static_cast<std::size_t>(bytes));
  }
  std::memcpy(static_cast<void*>(to.data()), from.data(), static_cast<std::size_t>(bytes));
}
/// From the rank's memory to the host; waits for what was queued.
template <class T>
void copy_out(std::span<T> to, std::span<const std::type_identity_t<T>> from) {
  const std::int64_t bytes = detail::bytes_of_both(to, from);
  if (detail::nothing_to_copy(to.data(), from.data(), bytes)) return;
  if (device* target = device::of_this_rank()) {
    return target->copy_out(to.data(), from.data(), static_cast<std::size_t>(bytes));
  }
  std::memcpy(static_cast<void*>(to.data()), from.data(), static_cast<std::size_t>(bytes));
}

}  // namespace tenon::inline v0
