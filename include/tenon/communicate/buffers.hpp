// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/base/element.hpp"
#include "tenon/communicate/communicator.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0 {

/// A type whose values can be summed or compared over ranks.
template <class T>
concept reducible = element<T> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

namespace communicate {

/// All elements of a buffer for a call, with the true size also in a run for shapes, where there
/// is no memory: so the scratch of a call is predicted.
template <storable T>
std::span<T> elements_of(buffer<T>& values) noexcept {
  return {values.data(), static_cast<std::size_t>(values.size())};
}
template <storable T>
std::span<const T> elements_of(const buffer<T>& values) noexcept {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

}  // namespace communicate

namespace detail {

template <class T>
std::int64_t count_in(std::span<T> values) noexcept {
  return static_cast<std::int64_t>(values.size());
}

/// In a run for shapes spans may be empty: nothing is checked then, and nothing touched.
inline void require_counts(communicator& group, std::string_view call,
                           std::span<const std::int64_t> counts) {
  require(std::ssize(counts) == group.size(), call, " on axis ", group.axis(), ": ", counts.size(),
          " counts were given for ", group.size(), " ranks; give one count a rank");
  for (const std::int64_t count : counts) {
    require(count >= 0, call, " on axis ", group.axis(), ": a count is ", count,
            "; give zero or more");
  }
}

inline void require_size(communicator& group, std::string_view call, std::string_view what,
                         std::int64_t size, std::int64_t wanted) {
  require(shapes_only::active() || size == wanted, call, " on axis ", group.axis(), " rank ",
          group.rank(), ": ", what, " has ", size, " elements and the counts say ", wanted,
          "; make them equal");
}

inline void require_partner(communicator& group, std::string_view call, int rank,
                            const call_options& options) {
  require(rank >= 0 && rank < group.size() && (rank != group.rank() || group.size() == 1), call,
          " on axis ", group.axis(), " rank ", group.rank(), ": the partner is rank ", rank,
          "; it is another one of the ", group.size(), " ranks");
  require(options.tag >= 0 && options.tag < 16384, call, " on axis ", group.axis(), ": the tag is ",
          options.tag, "; use 0 to 16383");
}

/// Two memories that overlap without being the same would be spoiled half-way.
inline void require_apart(communicator& group, std::string_view call, const void* a,
                          std::int64_t a_bytes, const void* b, std::int64_t b_bytes,
                          std::string_view allowed) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  const bool overlap = a_bytes > 0 && b_bytes > 0 && x < y + static_cast<std::uintptr_t>(b_bytes) &&
                       y < x + static_cast<std::uintptr_t>(a_bytes);
  require(shapes_only::active() || !overlap, call, " on axis ", group.axis(),
          ": input and result overlap; ", allowed);
}

}  // namespace detail
}  // namespace tenon::inline v0
