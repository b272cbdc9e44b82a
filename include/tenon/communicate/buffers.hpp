// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

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

/// The memory that a call reads or writes, without its type: what is checked and done is compiled
/// once and not once an element.
struct memory_view {
  template <class T>
  memory_view(std::span<T> values) noexcept  // NOLINT: a view of it
      : data(const_cast<void*>(static_cast<const void*>(values.data()))),
        count(static_cast<std::int64_t>(values.size())),
        kind(kind_of<std::remove_const_t<T>>) {}

  void* data;
  std::int64_t count;
  element_kind kind;
};

/// In a run for shapes spans may be empty: sizes are not checked then, and nothing is touched.
inline void require_counts(communicator& group, std::string_view call,
                           std::span<const std::int64_t> counts) {
  require(std::ssize(counts) == group.size(), call, " on axis ", group.axis(), ": ",
          std::ssize(counts), " counts were given for ", group.size(),
          " ranks; give one count a rank");
  for (const std::int64_t count : counts) {
    require(count >= 0, call, " on axis ", group.axis(), ": a count is ", count,
            "; give zero or more");
  }
}

inline void require_size(communicator& group, std::string_view call, std::string_view what,
                         std::int64_t size, std::int64_t wanted) {
  require(shapes_only::active() || size == wanted, call, " on axis ", group.axis(), " rank ",
          group.rank(), ": ", what, " has ", size, " elements and ", wanted,
          " are asked for; make them equal");
}

inline void require_whole_units(communicator& group, std::string_view call, std::int64_t count,
                                reduction_kind reduction) {
  require(count % unit_of(reduction) == 0, call, " on axis ", group.axis(), ": ", count,
          " elements cut a pair; log_sum_exp merges pairs");
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
inline void require_apart(communicator& group, std::string_view call, const memory_view& a,
                          const memory_view& b, std::string_view allowed) {
  const auto x = reinterpret_cast<std::uintptr_t>(a.data);
  const auto y = reinterpret_cast<std::uintptr_t>(b.data);
  const auto size = [](const memory_view& m) {
    return static_cast<std::uintptr_t>(m.count * bytes_of(m.kind));
  };
  const bool overlap = a.count > 0 && b.count > 0 && x < y + size(b) && y < x + size(a);
  require(shapes_only::active() || !overlap, call, " on axis ", group.axis(),
          ": input and result overlap; ", allowed);
}

/// The piece of a rank in a whole is its own part of it, or apart from it.
inline void require_own_part(communicator& group, std::string_view call, const memory_view& piece,
                             const memory_view& whole, std::span<const std::int64_t> counts) {
  const auto me = static_cast<std::size_t>(group.rank());
  require_size(group, call, "the piece", piece.count, counts[me]);
  require_size(group, call, "the whole", whole.count, sum_of(counts));
  if (piece.data == at(whole.data, sum_of(counts.first(me)), whole.kind)) return;
  require_apart(group, call, piece, whole, "in place, the piece is its own part of the whole");
}

}  // namespace detail
}  // namespace tenon::inline v0
