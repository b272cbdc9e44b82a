// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "tenon/kernel/attention/shape.hpp"
#include "tenon/kernel/team/arrays.hpp"
#include "tenon/kernel/team/lanes.hpp"
#include "tenon/kernel/team/tiles.hpp"

// What the attention programs of teams of many lanes share. Each of the four warps of a team works
// on 16 rows of its own against tiles of the other side that lie in scratch:
//
//   forward, dq     rows are queries: 64 a team       tiles of keys and values go by
//   dk, dv          rows are keys: 64 a team          tiles of queries and slopes go by
//
// so that a score, its probability and its gradient stay in the registers of one lane.
namespace tenon::inline v0::kernel::detail {

/// Sizes of a program for heads of at most `Width` (16 times a whole number) columns.
template <element T, int Width>
struct attention_sizes {
  static constexpr int threads = 128;
  static constexpr int rows = threads / 2;               ///< 16 a warp
  static constexpr int tile = sizeof(T) == 8 ? 16 : 32;  ///< rows of the other side at a time
  /// Rows of scratch: the step of 16 bytes more spreads columns over the banks.
  static constexpr int stride = Width + 16 / static_cast<int>(sizeof(T));
  /// Of the weights of a warp, see `multiply_by_tile`.
  static constexpr int space = std::is_same_v<T, bf16> ? 0 : 16 * (tile + 4);
  /// Scratch for 64 rows and two tiles, `sides` times 64 rows.
  static constexpr std::int64_t scratch_bytes(int sides) noexcept {
    const int elements = (sides * rows + 2 * tile) * stride + threads / 32 * space;
    return std::int64_t{elements} * static_cast<std::int64_t>(sizeof(T)) + std::int64_t{5} * 64;
  }
};

/// f(std::integral_constant<int, i>) for i = 0 .. Count-1: a loop without a counter, so that arrays
/// stay in registers.
template <int Count, class F>
TENON_BOTH inline void unrolled(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (f(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, Count>{});
}

/// The kv head of each q head, as a kernel's argument carries it.
struct kv_heads_table {
  static constexpr int most = 256;
  std::uint8_t kv[most];

  static kv_heads_table of(std::span<const int> kv_of_head) {
    require(kv_of_head.size() <= most, "attention: ", static_cast<std::int64_t>(kv_of_head.size()),
            " heads on one rank of a device; at most ", most,
            " are supported: use more ranks of the tensor axis");
    kv_heads_table table{};
    for (std::size_t h = 0; h < kv_of_head.size(); ++h) {
      table.kv[h] = static_cast<std::uint8_t>(kv_of_head[h]);
    }
    return table;
  }
};

/// to[Rows, Width] = `count` rows of `width` elements; zeros beside and below them.
template <int Rows, int Width, element T, class Team>
TENON_BOTH void fill_tile(const Team& team, T* to, int to_stride, const T* from,
                          std::int64_t from_stride, std::int64_t count, std::int64_t width) {
  constexpr int each = 16 / static_cast<int>(sizeof(T));
  constexpr int packs = Width / each;
  const bool aligned = width % each == 0 && from_stride % each == 0 && starts_at_sixteen(from);
  for (auto i = static_cast<int>(team.rank()); i < Rows * packs;
       i += static_cast<int>(Team::size())) {
    const int row = i / packs;
    const int column = i % packs * each;
    sixteen_bytes value{};
    if (row < count && column < width) {
      const T* source = from + row * from_stride + column;
      if (aligned) {
        value = load_sixteen(source);
      } else {
        T elements[each];
        for (int j = 0; j < each; ++j) {
          elements[j] = column + j < width ? source[j] : T(wide<T>{0});
        }
        std::memcpy(&value, elements, sizeof value);
      }
    }
    store_sixteen(to + row * to_stride + column, value);
  }
}

/// sums[n] += rows (16 of them) x the transpose of `Count` rows of a tile, over `Width` columns: on
/// the tensor cores for bf16, else one product and one sum after the other.
template <int Width, int Count, element T, class Team>
TENON_BOTH void multiply_by_rows(const Team& team, int lane, sum_tile<wide<T>> (&sums)[Count / 8],
                                 const T* rows, const T* tile, int stride) {
  if constexpr (std::is_same_v<T, bf16>) {
    for (int x = 0; x < Width; x += 16) {
      const left_tile left = load_left(lane, rows + x, stride);
      unrolled<Count / 8>([&](auto n) {
        team.multiply_tile(sums[n], left,
                           load_right_of_rows(lane, tile + 8 * n * stride + x, stride));
      });
    }
  } else {
    const T* first = rows + sum_row(lane, 0) * stride;
    const T* second = rows + sum_row(lane, 2) * stride;
    const T* columns = tile + sum_column(lane, 0) * stride;
    for (int x = 0; x < Width; ++x) {
      const T a = first[x];
      const T b = second[x];
      unrolled<Count / 8>([&](auto n) {
        const T c = columns[8 * n * stride + x];
        const T d = columns[(8 * n + 1) * stride + x];
        sums[n].values[0] += a * c;
        sums[n].values[1] += a * d;
        sums[n].values[2] += b * c;
        sums[n].values[3] += b * d;
      });
    }
  }
}

/// sums[n] += what `weights` hold, 16 x `Count`, x a tile of `Count` rows of `Width` columns.
/// `space`, for elements that are not bf16: 16 x (Count + 4) of the warp's own.
template <int Width, int Count, element T, class Team>
TENON_BOTH void multiply_by_tile(const Team& team, int lane, sum_tile<wide<T>> (&sums)[Width / 8],
                                 const sum_tile<wide<T>> (&weights)[Count / 8], const T* tile,
                                 int stride, [[maybe_unused]] T* space) {
  if constexpr (std::is_same_v<T, bf16>) {
    unrolled<Count / 16>([&](auto k) {
      const left_tile left = left_of_sums(weights[2 * k], weights[2 * k + 1]);
      unrolled<Width / 8>([&](auto n) {
        team.multiply_tile(sums[n], left, load_right(lane, tile + 16 * k * stride + 8 * n, stride));
      });
    });
  } else {
    constexpr int step = Count + 4;
    team.warp_barrier();  // what was there is read
    unrolled<Count / 8>([&](auto n) {
      for (int i = 0; i < 4; ++i) {
        space[sum_row(lane, i) * step + 8 * n + sum_column(lane, i)] = weights[n].values[i];
      }
    });
    team.warp_barrier();
    const T* first = space + sum_row(lane, 0) * step;
    const T* second = space + sum_row(lane, 2) * step;
    for (int k = 0; k < Count; ++k) {
      const T a = first[k];
      const T b = second[k];
      const T* row = tile + k * stride + sum_column(lane, 0);
      unrolled<Width / 8>([&](auto n) {
        sums[n].values[0] += a * row[8 * n];
        sums[n].values[1] += a * row[8 * n + 1];
        sums[n].values[2] += b * row[8 * n];
        sums[n].values[3] += b * row[8 * n + 1];
      });
    }
  }
}

/// The mask of attention's dropout at (sequence, head, query position, key position).
template <class W>
TENON_BOTH W kept_share(const attention_dropout& dropping, std::int64_t start) {
  const dropout::bound mask{dropping.stream, start, dropout::threshold(dropping.p),
                            1 / (1 - static_cast<double>(dropping.p))};
  return mask(W{1}, 0);
}

/// Each of the four lanes that hold a row gets the sum over them.
template <class W, class Team>
TENON_BOTH W sum_of_row(const Team& team, W value) {
  value += team.shuffle_xor(value, 1);
  value += team.shuffle_xor(value, 2);
  return value;
}

}  // namespace tenon::inline v0::kernel::detail
