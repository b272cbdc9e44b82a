// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tenon/kernel/attention/on_device.hpp"
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

/// One row of scores becomes exponentials over the running maximum, where the keys `seen` are, and
/// 0 elsewhere; returns the factor by which what was summed before must be multiplied. Source: M.
/// Milakov, N. Gimelshein, Online normalizer calculation for softmax, 2018; T. Dao and others,
/// FlashAttention, 2022.
template <class W>
W exponentials_of_row(const host_team& team, W* scores, region seen, std::int64_t keys, W& maximum,
                      W& total) {
  W factor{1};
  W* row = scores + seen.begin;
  if (seen.size > 0) {
    const W before = maximum;
    const W most = team.reduce(
        seen.size, before, [=](std::int64_t j) { return row[j]; }, larger{});
    team.for_each(seen.size, [=](std::int64_t j) { row[j] = exponential(row[j] - most); });
    // Before the first key the maximum is -infinity and this is 0.
    factor = exponential(before - most);
    total =
        total * factor + team.template sum<W>(seen.size, [=](std::int64_t j) { return row[j]; });
    maximum = most;
  }
  team.for_each(seen.begin, [=](std::int64_t j) { scores[j] = W{0}; });
  team.for_each(keys - seen.end(), [=](std::int64_t j) { row[seen.size + j] = W{0}; });
  return factor;
}

/// One row of results: the sums over `total`, or these merged with what is there, by the log-sum-
/// exps of both. Source of the merge: D. Gu and others, LoongTrain, 2024.
template <class Out, class W>
void finish_row(const host_team& team, Out* to, W& kept, const W* sums, W maximum, W total,
                std::int64_t width, output how) {
  const bool none = total == W{0};
  if (how == output::overwrite || (kept == lowest<W> && !none)) {
    const W inverse = none ? W{0} : W{1} / total;
    // Rows without keys may stand in a tile whose other rows have some.
    team.for_each(width,
                  [=](std::int64_t x) { to[x] = none ? Out(W{0}) : Out(sums[x] * inverse); });
    kept = none ? lowest<W> : maximum + std::log(total);
  } else if (!none) {
    const W fresh = maximum + std::log(total);
    const W most = std::max(kept, fresh);
    const W both = most + std::log(std::exp(kept - most) + std::exp(fresh - most));
    const W before = std::exp(kept - both);
    const W now = std::exp(fresh - both) / total;
    team.for_each(width,
                  [=](std::int64_t x) { to[x] = Out(widen(to[x]) * before + sums[x] * now); });
    kept = both;
  }
}

/// Multiplies probabilities by their dropout mask; `start` is the number of the first.
template <class W>
void drop_row(const host_team& team, W* row, std::int64_t seen, const attention_dropout& dropping,
              std::int64_t start) {
  const dropout::bound mask{dropping.stream, start, dropout::threshold(dropping.p),
                            1 / (1 - static_cast<double>(dropping.p))};
  team.for_each(seen, [=](std::int64_t j) { row[j] = mask(row[j], j); });
}

}  // namespace detail

/// Attention to some of the keys: softmax(scale q k^T) v for every sequence and head, with online
/// softmax in tiles: no matrix of q_length x k_length is held. q and o are [batch * q_length, heads
/// * width], k and v [batch * k_length, kv_heads * width]; log_sum_exp [batch, heads, q_length] is
/// kept for the backward, wide. A query that sees no key has the output 0 and log-sum-exp
/// -infinity. With `accumulate`, o and log_sum_exp hold the result for other keys, and get that for
/// all of them. o may be wide; it must not overlap the others.
/// Errors: bad_request when the sizes do not fit the shape.
template <element T, element Out>
void attention_to_block(matrix_view<Out> o, std::span<wide<T>> log_sum_exp, input<T> q, input<T> k,
                        input<T> v, const attention_shape& shape, output how) {
  static_assert(std::is_same_v<Out, T> || std::is_same_v<Out, wide<T>>,
                "attention: the result is neither in the element of the operands nor in the wide "
                "one; give one of these");
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
  if (detail::host_may_count(shape)) {
    detail::keep_blas_on_one_thread();
    detail::attention_pairs_of_this_rank() += detail::pairs_seen(shape);
    detail::for_each_tile_of_all(
        shape, [&](region rows, std::int64_t, std::int64_t keys, bool, std::int64_t times) {
          detail::note_product({rows.size, keys, shape.width, orientation::as_stored,
                                orientation::transposed, output::overwrite, kind_of<T>, times});
          detail::note_product({rows.size, shape.width, keys, orientation::as_stored,
                                orientation::as_stored, output::overwrite, kind_of<T>, times});
        });
  }
  if (device::of_this_rank() != nullptr) {
    return detail::attention_on_device<T>(o, log_sum_exp, q, k, v, shape, how);
  }
  const detail::row_tiles tiles = detail::query_tiles(shape);
  const std::int64_t q_tiles = tiles.count();
  const std::int64_t width = shape.width;
  const launch on_threads{.scratch_bytes = detail::forward_tiles<T>::bytes(shape),
                          .elements_each = shape.k_length * width,
                          .how = sharing::as_free};
  for_each_team(heads * q_tiles, on_threads, [&](host_team& team, std::int64_t program) {
    // The last query rows of a head see the most keys: they start first.
    const region rows = tiles.of(q_tiles - 1 - program % q_tiles);
    const std::int64_t begin = rows.begin;
    const std::int64_t count = rows.size;
    const std::int64_t h = program / q_tiles % shape.heads;
    const std::int64_t b = program / q_tiles / shape.heads;
    const std::int64_t kv = shape.kv_of_head[static_cast<std::size_t>(h)];
    const detail::forward_tiles<T> own(team, shape);
    team.for_each(count, [=](std::int64_t i) {
      own.maximum[i] = detail::lowest<sum_type>;
      own.total[i] = 0;
    });
    team.for_each(count * width, [=](std::int64_t i) { own.sums[i] = 0; });
    const auto q_tile = detail::wide_tile(team, q.row(b * shape.q_length + begin) + h * width,
                                          q.stride, count, width, own.q);
    bool first = true;
    detail::for_each_key_tile(shape, b, rows, [&](std::int64_t j, std::int64_t keys) {
      const auto k_tile = detail::wide_tile(team, k.row(b * shape.k_length + j) + kv * width,
                                            k.stride, keys, width, own.k);
      const auto v_tile = detail::wide_tile(team, v.row(b * shape.k_length + j) + kv * width,
                                            v.stride, keys, width, own.v);
      detail::multiply_tiles(orientation::as_stored, orientation::transposed, count, keys, width,
                             static_cast<sum_type>(shape.scale), q_tile, k_tile, sum_type{0},
                             own.scores, keys);
      for (std::int64_t i = 0; i < count; ++i) {
        sum_type* row = own.scores + i * keys;
        const region seen = shape.seen(b, begin + i, j, keys);
        const sum_type factor =
            detail::exponentials_of_row(team, row, seen, keys, own.maximum[i], own.total[i]);
        if (!first && seen.size > 0) {
          sum_type* sums = own.sums + i * width;
          team.for_each(width, [=](std::int64_t x) { sums[x] *= factor; });
        }
        if (shape.dropout.p > 0) {
          detail::drop_row(team, row + seen.begin, seen.size, shape.dropout,
                           shape.dropout.row_start(b, h, shape.q_positions.at(begin + i)) +
                               shape.k_positions.at(j) + seen.begin);
        }
      }
      detail::multiply_tiles(orientation::as_stored, orientation::as_stored, count, width, keys,
                             sum_type{1}, detail::tile<sum_type>{own.scores, keys}, v_tile,
                             first ? sum_type{0} : sum_type{1}, own.sums, width);
      first = false;
    });
    sum_type* kept = log_sum_exp.data() + (b * shape.heads + h) * shape.q_length + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      detail::finish_row(team, o.row(b * shape.q_length + begin + i) + h * width, kept[i],
                         own.sums + i * width, own.maximum[i], own.total[i], width, how);
    }
  });
}

/// Causal (or full) attention to all keys: see `attention_to_block`.
template <element T>
void attention(matrix_view<T> o, std::span<wide<T>> log_sum_exp, input<T> q, input<T> k, input<T> v,
               const attention_shape& shape) {
  attention_to_block<T>(o, log_sum_exp, q, k, v, shape, output::overwrite);
}

}  // namespace tenon::inline v0::kernel
