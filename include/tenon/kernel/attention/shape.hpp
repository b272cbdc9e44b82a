// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "tenon/base/random.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/dropout.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/kernel/product_log.hpp"
#include "tenon/kernel/rows/row_blocks.hpp"
#include "tenon/kernel/rows/softmax.hpp"

namespace tenon::inline v0::kernel {

/// Dropout of attention's probabilities: the mask is a function of (stream, global batch, global
/// head, query position, key position), whatever part of them is here.
struct attention_dropout {
  float p = 0;
  random_stream stream;
  std::int64_t batch_begin = 0;  ///< global number of the first sequence here
  std::int64_t head_begin = 0;   ///< global number of the first q head here
  std::int64_t heads_global = 1;
  std::int64_t q_length_global = 1;  ///< query positions of a whole sequence
  std::int64_t k_length_global = 1;  ///< key positions of a whole sequence

  /// The global number of (sequence b, head h, query position i, key position 0).
  constexpr std::int64_t row_start(std::int64_t b, std::int64_t h, std::int64_t i) const noexcept {
    return (((batch_begin + b) * heads_global + head_begin + h) * q_length_global + i) *
           k_length_global;
  }
};

/// What attention needs to know beside its matrices. Query row i of a sequence stands at position
/// q_offset + i, key row j at k_offset + j; offsets may be negative.
struct attention_shape {
  std::int64_t batch = 0;
  std::int64_t q_length = 0;
  std::int64_t k_length = 0;
  std::int64_t heads = 0;     ///< q heads here
  std::int64_t kv_heads = 0;  ///< kv heads here
  std::int64_t width = 0;     ///< of one head
  double scale = 1;           ///< of the scores, mostly 1 / sqrt(width)
  /// For each q head here the kv head here that it reads; [heads].
  std::span<const int> kv_of_head{};
  std::int64_t q_offset = 0;
  std::int64_t k_offset = 0;
  bool causal = true;  ///< a query sees the keys at its own position and before
  attention_dropout dropout{};

  /// How many of `count` keys from row `first` on the query row i sees: they are the first ones.
  constexpr std::int64_t seen(std::int64_t i, std::int64_t first,
                              std::int64_t count) const noexcept {
    if (!causal) return count;
    return std::clamp<std::int64_t>(q_offset + i - k_offset - first + 1, 0, count);
  }
};

/// Tile sizes of attention: they change the order of sums and nothing else.
struct attention_tuning {
  static constexpr std::int64_t q_rows = 64;
  static constexpr std::int64_t k_rows = 256;
};

namespace detail {

template <class View>
void require_heads(const char* name, const View& view, std::int64_t rows, std::int64_t columns) {
  require(view.rows == rows && view.columns == columns, "attention: ", name, " is ", view.rows,
          " x ", view.columns, " and the shape says ", rows, " x ", columns,
          "; give [batch * length, heads * width]");
}

inline void require_attention(const attention_shape& shape) {
  require(static_cast<std::int64_t>(shape.kv_of_head.size()) == shape.heads,
          "attention: kv_of_head has ", static_cast<std::int64_t>(shape.kv_of_head.size()),
          " entries for ", shape.heads, " heads; give one for each");
  for (const int kv : shape.kv_of_head) {
    require(kv >= 0 && kv < shape.kv_heads, "attention: a head reads kv head ", kv,
            " and there are ", shape.kv_heads, "; give heads that are there");
  }
  require(shape.dropout.p >= 0 && shape.dropout.p < 1, "attention: dropout of ", shape.dropout.p,
          " was asked for; give 0 or more, below 1");
}

/// A tile of rows as BLAS reads it.
template <class W>
struct tile {
  const W* data;
  std::int64_t stride;
};

/// `rows` x `width` elements of a view in the wide element: as they are, or widened into `space`.
template <class T>
tile<wide<T>> wide_tile(const host_team& team, const T* from, std::int64_t stride,
                        std::int64_t rows, std::int64_t width, wide<T>* space) {
  if constexpr (std::is_same_v<T, wide<T>>) {
    return {from, stride};
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = from + i * stride;
      wide<T>* to = space + i * width;
      team.for_each(width, [=](std::int64_t j) { to[j] = widen(row[j]); });
    }
    return {space, width};
  }
}

/// Scratch that `wide_tile` needs.
template <class T>
constexpr std::int64_t wide_tile_size(std::int64_t rows, std::int64_t width) noexcept {
  return std::is_same_v<T, wide<T>> ? 0 : rows * width;
}

/// C = alpha op(A) op(B) + beta C on tiles.
template <class W>
void multiply_tiles(orientation a_form, orientation b_form, std::int64_t m, std::int64_t n,
                    std::int64_t k, W alpha, tile<W> a, tile<W> b, W beta, W* c,
                    std::int64_t c_stride) {
  blas_product(a_form, b_form, m, n, k, alpha, a.data, a.stride, b.data, b.stride, beta, c,
               c_stride);
}

/// Calls f(q_begin, q_count, k_begin, k_count) for the tiles of one head in which a query sees a
/// key, in the order in which they are worked on.
template <class F>
void for_each_attention_tile(const attention_shape& shape, std::int64_t q_begin, std::int64_t q_end,
                             F&& f) {
  for (std::int64_t i = q_begin; i < q_end; i += attention_tuning::q_rows) {
    const std::int64_t rows = std::min(attention_tuning::q_rows, q_end - i);
    for (std::int64_t j = 0; j < shape.k_length; j += attention_tuning::k_rows) {
      const std::int64_t keys =
          shape.seen(i + rows - 1, j, std::min(attention_tuning::k_rows, shape.k_length - j));
      if (keys == 0) break;
      f(i, rows, j, keys);
    }
  }
}

}  // namespace detail

}  // namespace tenon::inline v0::kernel
