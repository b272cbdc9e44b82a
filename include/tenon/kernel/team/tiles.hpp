// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"

// Small matrices that the 32 lanes of a warp hold together in registers, laid out as the tensor
// cores' m16n8k16 product takes them (source: NVIDIA, PTX ISA, mma). With g = lane / 4 and
// t = lane % 4 a lane holds:
//
//   left  16 x 16   (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1) and the same four 8 columns on
//   right 16 x 8    (2t, g) (2t+1, g) and the same two 8 rows on
//   sum   16 x 8    (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//
// A team's `multiply_tile(sum, left, right)` adds left x right to sum.
namespace tenon::inline v0::kernel {

template <element T>
struct left_tile {
  alignas(4) T values[8];
};
template <element T>
struct right_tile {
  alignas(4) T values[4];
};
template <element T>
struct sum_tile {
  wide<T> values[4];
};

/// Where the i-th value of a lane stands in a tile.
TENON_BOTH constexpr int left_row(int lane, int i) noexcept { return lane / 4 + (i / 2 % 2) * 8; }
TENON_BOTH constexpr int left_column(int lane, int i) noexcept {
  return lane % 4 * 2 + i % 2 + i / 4 * 8;
}
TENON_BOTH constexpr int right_row(int lane, int i) noexcept {
  return lane % 4 * 2 + i % 2 + i / 2 * 8;
}
TENON_BOTH constexpr int right_column(int lane, int) noexcept { return lane / 4; }
TENON_BOTH constexpr int sum_row(int lane, int i) noexcept { return lane / 4 + i / 2 * 8; }
TENON_BOTH constexpr int sum_column(int lane, int i) noexcept { return lane % 4 * 2 + i % 2; }

namespace detail {
// Two neighbours at once: `from` begins at a multiple of two elements.
template <class T>
TENON_BOTH inline void load_pair(T* to, const T* from) noexcept {
  struct alignas(2 * sizeof(T)) pair {
    T values[2];
  };
  const pair both = *reinterpret_cast<const pair*>(from);
  to[0] = both.values[0];
  to[1] = both.values[1];
}
}  // namespace detail

/// A left tile from rows in memory: its element (r, c) is from[r * stride + c]. Rows begin at even
/// elements.
template <element T>
TENON_BOTH inline left_tile<T> load_left(int lane, const T* from, int stride) noexcept {
  left_tile<T> tile;
  for (int i = 0; i < 8; i += 2) {
    detail::load_pair(tile.values + i, from + left_row(lane, i) * stride + left_column(lane, i));
  }
  return tile;
}

/// A right tile whose columns are rows in memory: (r, c) is from[c * stride + r].
template <element T>
TENON_BOTH inline right_tile<T> load_right_of_rows(int lane, const T* from, int stride) noexcept {
  right_tile<T> tile;
  for (int i = 0; i < 4; i += 2) {
    detail::load_pair(tile.values + i, from + right_column(lane, i) * stride + right_row(lane, i));
  }
  return tile;
}

/// A right tile as it lies in memory: (r, c) is from[r * stride + c].
template <element T>
TENON_BOTH inline right_tile<T> load_right(int lane, const T* from, int stride) noexcept {
  right_tile<T> tile;
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, bf16>) {
    // One instruction turns two 8 x 8 matrices over: lane l gives the address of row l.
    const auto row =
        static_cast<std::uint32_t>(__cvta_generic_to_shared(from + lane % 16 * stride));
    std::uint32_t words[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(row)
                 : "memory");
    std::memcpy(static_cast<void*>(tile.values), words, sizeof words);
    return tile;
  }
#endif
  for (int i = 0; i < 4; ++i) {
    tile.values[i] = from[right_row(lane, i) * stride + right_column(lane, i)];
  }
  return tile;
}

/// Two sums that stand side by side, 16 x 16, as a left operand, rounded to its element.
template <element T>
TENON_BOTH inline left_tile<T> left_of_sums(const sum_tile<T>& first,
                                            const sum_tile<T>& second) noexcept {
  left_tile<T> tile;
  for (int i = 0; i < 4; ++i) {
    tile.values[i] = T(first.values[i]);
    tile.values[i + 4] = T(second.values[i]);
  }
  return tile;
}

namespace detail {

/// sum += left x right, where at(lane, values...) gives another lane's: one product and one sum
/// after the other, in the order of the inner dim.
template <element T, class LeftOf, class RightOf>
TENON_BOTH inline void multiply_tile_in_order(sum_tile<T>& sum, LeftOf&& left_of,
                                              RightOf&& right_of) {
  for (int k = 0; k < 16; ++k) {
    const int holder = k / 2 % 4;  // of column k of left, of row k of right
    const int in_left = k % 2 + k / 8 * 4;
    const int in_right = k % 2 + k / 8 * 2;
    wide<T> left[2];
    wide<T> right[2];
    for (int half = 0; half < 2; ++half) {
      left[half] = widen(left_of(holder, in_left + 2 * half));
      right[half] = widen(right_of(half, holder, in_right));
    }
    for (int i = 0; i < 4; ++i) sum.values[i] += left[i / 2] * right[i % 2];
  }
}

}  // namespace detail
}  // namespace tenon::inline v0::kernel
