// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tenon/kernel/attention/shape.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// What one team holds while it works on some query rows of one head.
template <class T>
struct forward_tiles {
  using sum_type = wide<T>;
  sum_type* scores;   // [q_rows, k_rows]
  sum_type* sums;     // [q_rows, width]: values times probabilities so far
  sum_type* maximum;  // [q_rows]: of the scores so far
  sum_type* total;    // [q_rows]: sum of the exponentials so far
  sum_type* q;        // widened operands, where T is not wide
  sum_type* k;
  sum_type* v;

  static std::int64_t rows_of(const attention_shape& s) noexcept {
    return std::min(attention_tuning::q_rows, s.q_length);
  }
  static std::int64_t keys_of(const attention_shape& s) noexcept {
    return std::min(attention_tuning::k_rows, s.k_length);
  }
  static std::int64_t bytes(const attention_shape& s) noexcept {
    const auto of = [](std::int64_t n) { return host_team::scratch_bytes<sum_type>(n); };
    const std::int64_t rows = rows_of(s);
    const std::int64_t keys = keys_of(s);
    return of(rows * keys) + of(rows * s.width) + 2 * of(rows) +
           of(wide_tile_size<T>(rows, s.width)) + 2 * of(wide_tile_size<T>(keys, s.width));
  }
  forward_tiles(host_team& team, const attention_shape& s)
      : scores(team.scratch<sum_type>(rows_of(s) * keys_of(s))),
        sums(team.scratch<sum_type>(rows_of(s) * s.width)),
        maximum(team.scratch<sum_type>(rows_of(s))),
        total(team.scratch<sum_type>(rows_of(s))),
        q(team.scratch<sum_type>(wide_tile_size<T>(rows_of(s), s.width))),
        k(team.scratch<sum_type>(wide_tile_size<T>(keys_of(s), s.width))),
        v(team.scratch<sum_type>(wide_tile_size<T>(keys_of(s), s.width))) {}
};

/// One row of scores becomes exponentials over the running maximum; returns the factor by which
/// what was summed before must be multiplied. Source: M. Milakov, N. Gimelshein, Online normalizer
/// calculation for softmax, 2018; T. Dao and others, FlashAttention, 2022.
template <class W>
W exponentials_of_row(const host_team& team, W* row, std::int64_t seen, std::int64_t keys,
                      W& maximum, W& total) {
  W factor{1};
  if (seen > 0) {
    const W before = maximum;
    const W most = team.reduce(
        seen, before, [=](std::int64_t j) { return row[j]; }, larger{});
    team.for_each(seen, [=](std::int64_t j) { row[j] = exponential(row[j] - most); });
    // Before the first key the maximum is -infinity and this is 0.
    factor = exponential(before - most);
    total = total * factor + team.template sum<W>(seen, [=](std::int64_t j) { return row[j]; });
    maximum = most;
  }
  team.for_each(keys - seen, [=](std::int64_t j) { row[seen + j] = W{0}; });
  return factor;
}

/// Multiplies probabilities by their dropout mask.
template <class W>
void drop_row(const host_team& team, W* row, std::int64_t seen, const attention_dropout& dropping,
              std::int64_t start) {
  const dropout::bound mask{dropping.stream, start, dropout::threshold(dropping.p),
                            1 / (1 - static_cast<double>(dropping.p))};
  team.for_each(seen, [=](std::int64_t j) { row[j] = mask(row[j], j); });
}

}  // namespace detail

/// Causal (or full) attention: o = softmax(scale q k^T) v for every sequence and head, with online
/// softmax in tiles: no matrix of q_length x k_length is held. q and o are [batch * q_length, heads
/// * width], k and v [batch * k_length, kv_heads * width]; log_sum_exp [batch, heads, q_length] is
/// kept for the backward, wide. A query that sees no key has the output 0 and log-sum-exp
/// -infinity. o must not overlap the others.
/// Errors: bad_request when the sizes do not fit the shape.
template <element T>
void attention(matrix_view<T> o, std::span<wide<T>> log_sum_exp, input<T> q, input<T> k, input<T> v,
               const attention_shape& shape) {
  using sum_type = wide<T>;
  detail::require_attention(shape);
  detail::require_heads("o", o, shape.batch * shape.q_length, shape.heads * shape.width);
  detail::require_heads("q", q, shape.batch * shape.q_length, shape.heads * shape.width);
  detail::require_heads("k", k, shape.batch * shape.k_length, shape.kv_heads * shape.width);
  detail::require_heads("v", v, shape.batch * shape.k_length, shape.kv_heads * shape.width);
  const std::int64_t heads = shape.batch * shape.heads;
  if (heads == 0 || shape.q_length == 0) return;
  require(static_cast<std::int64_t>(log_sum_exp.size()) == heads * shape.q_length ||
              shapes_only::active(),
          "attention: log_sum_exp has ", static_cast<std::int64_t>(log_sum_exp.size()),
          " entries; give batch * heads * q_length, ", heads * shape.q_length);
  if (!shapes_only::active()) {
    detail::keep_blas_on_one_thread();
    detail::for_each_attention_tile(
        shape, 0, shape.q_length,
        [&](std::int64_t, std::int64_t rows, std::int64_t, std::int64_t keys) {
          detail::note_product({rows, keys, shape.width, orientation::as_stored,
                                orientation::transposed, output::overwrite, kind_of<T>, heads});
          detail::note_product({rows, shape.width, keys, orientation::as_stored,
                                orientation::as_stored, output::overwrite, kind_of<T>, heads});
        });
  }
  const std::int64_t q_tiles =
      (shape.q_length + attention_tuning::q_rows - 1) / attention_tuning::q_rows;
  const std::int64_t width = shape.width;
  const launch how{.scratch_bytes = detail::forward_tiles<T>::bytes(shape),
                   .elements_each = shape.k_length * width,
                   .how = sharing::as_free};
  for_each_team(heads * q_tiles, how, [&](host_team& team, std::int64_t program) {
    // The last query rows of a head see the most keys: they start first.
    const std::int64_t begin = (q_tiles - 1 - program % q_tiles) * attention_tuning::q_rows;
    const std::int64_t end = std::min(shape.q_length, begin + attention_tuning::q_rows);
    const std::int64_t h = program / q_tiles % shape.heads;
    const std::int64_t b = program / q_tiles / shape.heads;
    const std::int64_t kv = shape.kv_of_head[static_cast<std::size_t>(h)];
    const detail::forward_tiles<T> own(team, shape);
    const std::int64_t count = end - begin;
    team.for_each(count, [=](std::int64_t i) {
      own.maximum[i] = detail::lowest<sum_type>;
      own.total[i] = 0;
    });
    team.for_each(count * width, [=](std::int64_t i) { own.sums[i] = 0; });
    const auto q_tile = detail::wide_tile(team, q.row(b * shape.q_length + begin) + h * width,
                                          q.stride, count, width, own.q);
    detail::for_each_attention_tile(
        shape, begin, end, [&](std::int64_t, std::int64_t rows, std::int64_t j, std::int64_t keys) {
          const auto k_tile = detail::wide_tile(team, k.row(b * shape.k_length + j) + kv * width,
                                                k.stride, keys, width, own.k);
          const auto v_tile = detail::wide_tile(team, v.row(b * shape.k_length + j) + kv * width,
                                                v.stride, keys, width, own.v);
          detail::multiply_tiles(orientation::as_stored, orientation::transposed, rows, keys, width,
                                 static_cast<sum_type>(shape.scale), q_tile, k_tile, sum_type{0},
                                 own.scores, keys);
          for (std::int64_t i = 0; i < rows; ++i) {
            sum_type* row = own.scores + i * keys;
            const std::int64_t seen = shape.seen(begin + i, j, keys);
            const sum_type factor =
                detail::exponentials_of_row(team, row, seen, keys, own.maximum[i], own.total[i]);
            if (j > 0 && seen > 0) {
              sum_type* sums = own.sums + i * width;
              team.for_each(width, [=](std::int64_t x) { sums[x] *= factor; });
            }
            if (shape.dropout.p > 0) {
              const std::int64_t place = shape.q_offset + begin + i;
              detail::drop_row(team, row, seen, shape.dropout,
                               shape.dropout.row_start(b, h, place) + shape.k_offset + j);
            }
          }
          detail::multiply_tiles(orientation::as_stored, orientation::as_stored, rows, width, keys,
                                 sum_type{1}, detail::tile<sum_type>{own.scores, keys}, v_tile,
                                 j > 0 ? sum_type{1} : sum_type{0}, own.sums, width);
        });
    sum_type* kept = log_sum_exp.data() + (b * shape.heads + h) * shape.q_length + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      T* to = o.row(b * shape.q_length + begin + i) + h * width;
      const bool none = shape.seen(begin + i, 0, shape.k_length) == 0;
      const sum_type inverse = none ? sum_type{0} : sum_type{1} / own.total[i];
      const sum_type* sums = own.sums + i * width;
      team.for_each(width, [=](std::int64_t x) {
        // Rows without keys may stand in a tile whose other rows have some.
        to[x] = none ? T(sum_type{0}) : T(sums[x] * inverse);
      });
      kept[i] = none ? detail::lowest<sum_type> : own.maximum[i] + std::log(own.total[i]);
    }
  });
}

}  // namespace tenon::inline v0::kernel
