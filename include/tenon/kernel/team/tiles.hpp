// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

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
// A team's `multiply_tile(sum, left, right)` adds left x right to sum. Operands are bf16, sums
// fp32.
namespace tenon::inline v0::kernel {

struct left_tile {
  alignas(4) bf16 values[8];
};
struct right_tile {
  alignas(4) bf16 values[4];
};
/// W is fp32; other programs hold sums of fp64 in the same layout.
template <class W = fp32>
struct sum_tile {
  W values[4];
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
// Two neighbours at once: `from` begins at an even element.
TENON_BOTH inline void load_pair(bf16* to, const bf16* from) noexcept {
  const auto both = *reinterpret_cast<const std::uint32_t*>(from);
  std::memcpy(static_cast<void*>(to), &both, sizeof both);
}
}  // namespace detail

/// A left tile from rows in memory: its element (r, c) is from[r * stride + c]. Rows begin at even
/// elements.
TENON_BOTH inline left_tile load_left(int lane, const bf16* from, int stride) noexcept {
  left_tile tile;
  for (int i = 0; i < 8; i += 2) {
    const int at = left_row(lane, i) * stride + left_column(lane, i);
    detail::load_pair(tile.values + i, from + at);
  }
  return tile;
}

/// A right tile whose columns are rows in memory: (r, c) is from[c * stride + r].
TENON_BOTH inline right_tile load_right_of_rows(int lane, const bf16* from, int stride) noexcept {
  right_tile tile;
  for (int i = 0; i < 4; i += 2) {
    const int at = right_column(lane, i) * stride + right_row(lane, i);
    detail::load_pair(tile.values + i, from + at);
  }
  return tile;
}

/// A right tile as it lies in memory: (r, c) is from[r * stride + c].
TENON_BOTH inline right_tile load_right(int lane, const bf16* from, int stride) noexcept {
  right_tile tile;
#if defined(__CUDA_ARCH__)
  // One instruction turns two 8 x 8 matrices over: lane l gives the address of row l.
  const auto row = static_cast<std::uint32_t>(__cvta_generic_to_shared(from + lane % 16 * stride));
  std::uint32_t words[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(row)
               : "memory");
  std::memcpy(static_cast<void*>(tile.values), words, sizeof words);
#else
  for (int i = 0; i < 4; ++i) {
    tile.values[i] = from[right_row(lane, i) * stride + right_column(lane, i)];
  }
#endif
  return tile;
}

/// Two sums that stand side by side, 16 x 16, as a left operand, rounded to its element.
TENON_BOTH inline left_tile left_of_sums(const sum_tile<>& first,
                                         const sum_tile<>& second) noexcept {
  left_tile tile;
  for (int i = 0; i < 4; ++i) {
    tile.values[i] = bf16(first.values[i]);
    tile.values[i + 4] = bf16(second.values[i]);
  }
  return tile;
}

}  // namespace tenon::inline v0::kernel
