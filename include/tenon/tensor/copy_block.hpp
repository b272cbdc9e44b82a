// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/base/element.hpp"
#include "tenon/memory/boxes.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0::detail {

/// A box of indices inside a row-major array: the array's extents, and where the box begins.
template <std::size_t N>
struct block_in {
  std::array<std::int64_t, N> extents;
  std::array<std::int64_t, N> begin;
};

/// Visits the box of `size` in two arrays as runs that are contiguous in both:
/// f(offset in a, offset in b, length).
template <std::size_t N, class F>
void for_each_run(const block_in<N>& a, const block_in<N>& b,
                  const std::array<std::int64_t, N>& size, F&& f) {
  std::int64_t all = 1;
  for (std::int64_t s : size) all *= s;
  if (all == 0) return;
  // The trailing dims that are whole in both arrays make one run with the dim before them.
  std::size_t inner = N;
  std::int64_t length = 1;
  while (inner > 0) {
    --inner;
    length *= size[inner];
    if (size[inner] != a.extents[inner] || size[inner] != b.extents[inner]) break;
  }
  const auto offset = [](const block_in<N>& where, const std::array<std::int64_t, N>& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < N; ++d) at = at * where.extents[d] + where.begin[d] + index[d];
    return at;
  };
  if (inner == 0) return f(offset(a, {}), offset(b, {}), length);
  // The dim before the run is stepped through with fixed strides, the others are counted.
  const auto stride = [inner](const block_in<N>& where) {
    std::int64_t step = 1;
    for (std::size_t d = inner; d < N; ++d) step *= where.extents[d];
    return step;
  };
  const std::int64_t a_step = stride(a);
  const std::int64_t b_step = stride(b);
  std::array<std::int64_t, N> index{};
  while (true) {
    std::int64_t at_a = offset(a, index);
    std::int64_t at_b = offset(b, index);
    for (std::int64_t i = 0; i < size[inner - 1]; ++i, at_a += a_step, at_b += b_step) {
      f(at_a, at_b, length);
    }
    std::size_t d = inner - 1;
    while (d > 0) {
      --d;
      if (++index[d] < size[d]) break;
      index[d] = 0;
      if (d == 0) return;
    }
    if (inner == 1) return;
  }
}

/// memcpy, which a compiler writes out where the size is a constant: short runs are often one of
/// these sizes, and the call would take longer than the copy.
inline void copy_run(void* to, const void* from, std::size_t bytes) noexcept {
  switch (bytes) {
    case 32:
      std::memcpy(to, from, 32);
      return;
    case 64:
      std::memcpy(to, from, 64);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

/// The box in two arrays on a device.
template <class T, std::size_t N>
box_pair pair_of_boxes(T* to, const block_in<N>& to_block, const T* from,
                       const block_in<N>& from_block, const std::array<std::int64_t, N>& size) {
  std::array<std::int64_t, N> to_steps;
  std::array<std::int64_t, N> from_steps;
  std::int64_t to_step = 1;
  std::int64_t from_step = 1;
  for (std::size_t d = N; d-- > 0;) {
    to_steps[d] = to_step;
    from_steps[d] = from_step;
    to += to_block.begin[d] * to_step;
    from += from_block.begin[d] * from_step;
    to_step *= to_block.extents[d];
    from_step *= from_block.extents[d];
  }
  box_pair box{.to = to, .from = from, .kind = kind_of<T>};
  for (std::size_t d = 0; d < N; ++d) box.add_dim(size[d], to_steps[d], from_steps[d]);
  return box;
}

/// to[box] = from[box].
template <class T, std::size_t N>
void copy_block(T* to, const block_in<N>& to_block, const T* from, const block_in<N>& from_block,
                const std::array<std::int64_t, N>& size) {
  if (device::of_this_rank() != nullptr) {
    const auto program = box_entry::entered(box_entry::copy);
    return program(pair_of_boxes(to, to_block, from, from_block, size));
  }
  for_each_run(to_block, from_block, size,
               [=](std::int64_t t, std::int64_t f, std::int64_t length) {
                 copy_run(to + t, from + f, static_cast<std::size_t>(length) * sizeof(T));
               });
}

/// to[box] += from[box], in the element's own arithmetic (bf16: in fp32, rounded).
template <class T, std::size_t N>
void add_block(T* to, const block_in<N>& to_block, const T* from, const block_in<N>& from_block,
               const std::array<std::int64_t, N>& size) {
  if (device::of_this_rank() != nullptr) {
    const auto program = box_entry::entered(box_entry::add);
    return program(pair_of_boxes(to, to_block, from, from_block, size));
  }
  for_each_run(to_block, from_block, size,
               [=](std::int64_t t, std::int64_t f, std::int64_t length) {
                 for (std::int64_t i = 0; i < length; ++i) to[t + i] = T(to[t + i] + from[f + i]);
               });
}

}  // namespace tenon::inline v0::detail
