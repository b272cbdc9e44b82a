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
#include "tenon/placement/token_order.hpp"

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
  TENON_BOTH constexpr std::int64_t row_start(std::int64_t b, std::int64_t h,
                                              std::int64_t i) const noexcept {
    return (((batch_begin + b) * heads_global + head_begin + h) * q_length_global + i) *
           k_length_global;
  }
};

/// What attention needs to know beside its matrices. Query row i of a sequence stands at position
/// q_positions.at(i), key row j at k_positions.at(j); positions may be negative.
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
  position_runs q_positions{};
  position_runs k_positions{};
  bool causal = true;  ///< a query sees the keys at its own position and before
  attention_dropout dropout{};
  /// Where the document of each position begins: a query sees no key before it. [batch,
  /// positions], falling nowhere within a sequence; empty: each sequence is one document. Only
  /// with `causal`.
  std::span<const std::int32_t> document_begins{};
  std::int64_t positions = 0;  ///< of a whole sequence, in `document_begins`

  /// Which of `count` keys from row `first` on, of one run of positions, the query row i of
  /// sequence b sees: they are neighbours.
  constexpr region seen(std::int64_t b, std::int64_t i, std::int64_t first,
                        std::int64_t count) const noexcept {
    if (!causal) return {0, count};
    const std::int64_t place = q_positions.at(i);
    const std::int64_t start = k_positions.at(first);
    const std::int64_t end = std::clamp<std::int64_t>(place - start + 1, 0, count);
    if (document_begins.empty()) return {0, end};
    const std::int64_t document = document_begins[static_cast<std::size_t>(b * positions + place)];
    const std::int64_t begin = std::clamp<std::int64_t>(document - start, 0, end);
    return {begin, end - begin};
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

/// The tiles of the rows of a sequence: each lies in one run of positions.
class row_tiles {
 public:
  constexpr row_tiles(const position_runs& runs, std::int64_t length, std::int64_t rows) noexcept
      : first_(runs.in_first(length)), length_(length), rows_(rows) {}
  constexpr std::int64_t count() const noexcept {
    return in_first() + (length_ - first_ + rows_ - 1) / rows_;
  }
  constexpr region of(std::int64_t tile) const noexcept {
    const bool second = tile >= in_first();
    const std::int64_t begin = second ? first_ + (tile - in_first()) * rows_ : tile * rows_;
    return {begin, std::min(rows_, (second ? length_ : first_) - begin)};
  }

 private:
  constexpr std::int64_t in_first() const noexcept { return (first_ + rows_ - 1) / rows_; }
  std::int64_t first_;
  std::int64_t length_;
  std::int64_t rows_;
};

inline row_tiles query_tiles(const attention_shape& shape) noexcept {
  return {shape.q_positions, shape.q_length, attention_tuning::q_rows};
}

/// How many of a tile of keys, from its first on, the rows `q` of sequence b may see; 0 when none.
constexpr std::int64_t keys_seen(const attention_shape& shape, std::int64_t b, region q,
                                 region keys) noexcept {
  // The last row sees the most of the end, the first row the most of the beginning.
  const std::int64_t end = shape.seen(b, q.end() - 1, keys.begin, keys.size).end();
  if (end == 0 || shape.document_begins.empty()) return end;
  const std::int64_t begin = shape.document_begins[static_cast<std::size_t>(
      b * shape.positions + shape.q_positions.at(q.begin))];
  return begin >= shape.k_positions.at(keys.begin) + end ? 0 : end;
}

/// Calls f(k_begin, k_count) for the tiles of keys in which a row of the tile `q` of sequence b
/// sees one, in the order in which they are worked on.
template <class F>
void for_each_key_tile(const attention_shape& shape, std::int64_t b, region q, F&& f) {
  const row_tiles tiles(shape.k_positions, shape.k_length, attention_tuning::k_rows);
  for (std::int64_t t = 0; t < tiles.count(); ++t) {
    const region keys = tiles.of(t);
    if (const std::int64_t count = keys_seen(shape, b, q, keys); count > 0) f(keys.begin, count);
  }
}

/// Whether the products of attention are noted: not in a dry run, and not where the documents lie
/// on a device.
inline bool host_may_count(const attention_shape& shape) noexcept {
  return !shapes_only::active() &&
         (device::of_this_rank() == nullptr || shape.document_begins.empty());
}

/// The pairs of a query and a key that it sees, over all sequences and heads.
inline std::int64_t pairs_seen(const attention_shape& shape) noexcept {
  const row_tiles keys(shape.k_positions, shape.k_length, shape.k_length + 1);
  std::int64_t pairs = 0;
  const bool alike = shape.document_begins.empty();
  for (std::int64_t b = 0; b < (alike ? std::min<std::int64_t>(shape.batch, 1) : shape.batch);
       ++b) {
    for (std::int64_t i = 0; i < shape.q_length; ++i) {
      for (std::int64_t run = 0; run < keys.count(); ++run) {
        pairs += shape.seen(b, i, keys.of(run).begin, keys.of(run).size).size;
      }
    }
  }
  return pairs * shape.heads * (alike ? shape.batch : 1);
}

/// Calls note(tile of queries, k_begin, k_count, first, times) for the tiles of all heads; those of
/// sequences with the same tiles are one, `times` over.
template <class F>
void for_each_tile_of_all(const attention_shape& shape, F&& note) {
  const bool alike = shape.document_begins.empty();
  const row_tiles queries = query_tiles(shape);
  for (std::int64_t b = 0; b < (alike ? std::min<std::int64_t>(shape.batch, 1) : shape.batch);
       ++b) {
    for (std::int64_t t = 0; t < queries.count(); ++t) {
      bool first = true;
      for_each_key_tile(shape, b, queries.of(t), [&](std::int64_t j, std::int64_t keys) {
        note(queries.of(t), j, keys, first, shape.heads * (alike ? shape.batch : 1));
        first = false;
      });
    }
  }
}

}  // namespace detail

}  // namespace tenon::inline v0::kernel
