// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tenon/kernel/attention/on_device.hpp"
#include "tenon/kernel/attention/shape.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// What one team holds while it works on one kv head of one sequence; `Out` is the element of the
/// results.
template <class T, class Out>
struct backward_tiles {
  using sum_type = wide<T>;
  sum_type* scores;     // [q_rows, k_rows]: scores, then probabilities
  sum_type* gradients;  // [q_rows, k_rows]: of the probabilities, then of the scores
  sum_type* q_sums;     // [q_rows, width]: gradient of q
  sum_type* inner;      // [q_rows]: sum over width of o times its gradient
  sum_type* q;          // widened operands, where T is not wide
  sum_type* o_gradient;
  sum_type* k;
  sum_type* v;
  sum_type* k_sums;  // [k_length, width] where Out is not wide: the gradients of k and of v
  sum_type* v_sums;

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
    return 2 * of(rows * keys) + of(rows * s.width) + of(rows) +
           2 * of(wide_tile_size<T>(rows, s.width)) + 2 * of(wide_tile_size<T>(keys, s.width)) +
           2 * of(wide_tile_size<Out>(s.k_length, s.width));
  }
  backward_tiles(host_team& team, const attention_shape& s)
      : scores(team.scratch<sum_type>(rows_of(s) * keys_of(s))),
        gradients(team.scratch<sum_type>(rows_of(s) * keys_of(s))),
        q_sums(team.scratch<sum_type>(rows_of(s) * s.width)),
        inner(team.scratch<sum_type>(rows_of(s))),
        q(team.scratch<sum_type>(wide_tile_size<T>(rows_of(s), s.width))),
        o_gradient(team.scratch<sum_type>(wide_tile_size<T>(rows_of(s), s.width))),
        k(team.scratch<sum_type>(wide_tile_size<T>(keys_of(s), s.width))),
        v(team.scratch<sum_type>(wide_tile_size<T>(keys_of(s), s.width))),
        k_sums(team.scratch<sum_type>(wide_tile_size<Out>(s.k_length, s.width))),
        v_sums(team.scratch<sum_type>(wide_tile_size<Out>(s.k_length, s.width))) {}
};

/// One row: scores become the probabilities that enter the product with v, `gradients` (of those
/// probabilities) become the gradients of the scores; both 0 where no key is seen. `inner` is the
/// sum over keys of probability times its gradient, which equals that over the width of o times its
/// gradient.
template <class W>
void score_gradients_of_row(const host_team& team, W* all_scores, W* all_gradients, region seen,
                            std::int64_t keys, W log_sum_exp, W inner, W factor,
                            const attention_dropout& dropping, std::int64_t start) {
  W* scores = all_scores + seen.begin;
  W* gradients = all_gradients + seen.begin;
  if (dropping.p > 0) {
    const dropout::bound mask{dropping.stream, start + seen.begin, dropout::threshold(dropping.p),
                              1 / (1 - static_cast<double>(dropping.p))};
    team.for_each(seen.size, [=](std::int64_t j) {
      const W share = exponential(scores[j] - log_sum_exp);
      const W kept = mask(W{1}, j);
      scores[j] = share * kept;
      gradients[j] = share * (gradients[j] * kept - inner) * factor;
    });
  } else {
    team.for_each(seen.size, [=](std::int64_t j) {
      const W share = exponential(scores[j] - log_sum_exp);
      scores[j] = share;
      gradients[j] = share * (gradients[j] - inner) * factor;
    });
  }
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    team.for_each(end - begin, [=](std::int64_t j) {
      all_scores[begin + j] = W{0};
      all_gradients[begin + j] = W{0};
    });
  };
  clear(0, seen.begin);
  clear(seen.end(), keys);
}

inline void note_backward_products(const attention_shape& shape, element_kind kind) {
  using enum orientation;
  const std::int64_t width = shape.width;
  for_each_tile_of_all(
      shape, [&](region rows, std::int64_t, std::int64_t keys, bool first, std::int64_t times) {
        const output q_how = first ? output::overwrite : output::accumulate;
        const output sum = output::accumulate;
        const output fresh = output::overwrite;
        note_product({rows.size, keys, width, as_stored, transposed, fresh, kind, times});
        note_product({rows.size, keys, width, as_stored, transposed, fresh, kind, times});
        note_product({keys, width, rows.size, transposed, as_stored, sum, kind, times});
        note_product({rows.size, width, keys, as_stored, as_stored, q_how, kind, times});
        note_product({keys, width, rows.size, transposed, as_stored, sum, kind, times});
      });
}

}  // namespace detail

/// The backward of `attention_to_block`: dq, dk and dv from the gradient of o, o itself, the kept
/// log-sum-exps of all keys and the operands, tile by tile; probabilities are computed again. dk
/// and dv are summed over the q heads that read them, in the order of the heads: the result does
/// not depend on the number of threads. Queries that see no key get the gradient 0. The three
/// replace what is there, but for dq with `q_how` accumulate, which adds to it; they may be wide,
/// and must not overlap anything else.
template <element T, element Out>
void attention_backward_of_block(matrix_view<Out> dq, matrix_view<Out> dk, matrix_view<Out> dv,
                                 input<T> o_gradient, input<T> q, input<T> k, input<T> v,
                                 input<T> o, input_span<wide<T>> log_sum_exp,
                                 const attention_shape& shape, output q_how) {
  static_assert(std::is_same_v<Out, T> || std::is_same_v<Out, wide<T>>,
                "attention_backward: the results are neither in the element of the operands nor in "
                "the wide one; give one of these");
  using sum_type = wide<T>;
  using enum orientation;
  constexpr bool in_place = std::is_same_v<Out, sum_type>;
  detail::require_attention(shape);
  const std::int64_t q_rows = shape.batch * shape.q_length;
  const std::int64_t k_rows = shape.batch * shape.k_length;
  const std::int64_t width = shape.width;
  detail::require_heads("dq", dq, q_rows, shape.heads * width);
  detail::require_heads("the gradient of o", o_gradient, q_rows, shape.heads * width);
  detail::require_heads("q", q, q_rows, shape.heads * width);
  detail::require_heads("o", o, q_rows, shape.heads * width);
  detail::require_heads("dk", dk, k_rows, shape.kv_heads * width);
  detail::require_heads("dv", dv, k_rows, shape.kv_heads * width);
  detail::require_heads("k", k, k_rows, shape.kv_heads * width);
  detail::require_heads("v", v, k_rows, shape.kv_heads * width);
  if (detail::host_may_count(shape)) {
    detail::keep_blas_on_one_thread();
    detail::attention_pairs_of_this_rank() += detail::pairs_seen(shape);
    detail::note_backward_products(shape, kind_of<T>);
  }
  if (device::of_this_rank() != nullptr) {
    return detail::attention_backward_on_device<T>(dq, dk, dv, o_gradient, q, k, v, o, log_sum_exp,
                                                   shape, q_how);
  }
  const detail::row_tiles tiles = detail::query_tiles(shape);
  const launch how{.scratch_bytes = detail::backward_tiles<T, Out>::bytes(shape),
                   .elements_each = (shape.q_length + shape.k_length) * width,
                   .how = sharing::as_free};
  for_each_team(shape.batch * shape.kv_heads, how, [&](host_team& team, std::int64_t program) {
    const std::int64_t kv = program % shape.kv_heads;
    const std::int64_t b = program / shape.kv_heads;
    const detail::backward_tiles<T, Out> own(team, shape);
    const auto at = [width](auto& view, std::int64_t row, std::int64_t head) {
      return view.row(row) + head * width;
    };
    // Where the gradients of k and v are summed: in place, or in fp32 beside.
    sum_type* k_sums = own.k_sums;
    sum_type* v_sums = own.v_sums;
    std::int64_t sums_stride = width;
    std::int64_t v_stride = width;
    if constexpr (in_place) {
      k_sums = dk.data + b * shape.k_length * dk.stride + kv * width;
      v_sums = dv.data + b * shape.k_length * dv.stride + kv * width;
      sums_stride = dk.stride;
      v_stride = dv.stride;
    }
    for (std::int64_t j = 0; j < shape.k_length; ++j) {
      team.for_each(width, [=](std::int64_t x) {
        k_sums[j * sums_stride + x] = 0;
        v_sums[j * v_stride + x] = 0;
      });
    }
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      if (shape.kv_of_head[static_cast<std::size_t>(h)] != kv) continue;
      const sum_type* kept = log_sum_exp.data() + (b * shape.heads + h) * shape.q_length;
      for (std::int64_t t = 0; t < tiles.count(); ++t) {
        const std::int64_t begin = tiles.of(t).begin;
        const std::int64_t count = tiles.of(t).size;
        const std::int64_t first = b * shape.q_length + begin;
        detail::tile<sum_type> q_tile{};
        detail::tile<sum_type> slope_tile{};
        bool fresh = true;
        detail::for_each_key_tile(shape, b, tiles.of(t), [&](std::int64_t j, std::int64_t keys) {
          if (fresh) {
            for (std::int64_t i = 0; i < count; ++i) {
              const T* value = at(o, first + i, h);
              const T* slope = at(o_gradient, first + i, h);
              own.inner[i] = team.sum<sum_type>(
                  width, [=](std::int64_t x) { return widen(value[x]) * widen(slope[x]); });
            }
            q_tile = detail::wide_tile(team, at(q, first, h), q.stride, count, width, own.q);
            slope_tile = detail::wide_tile(team, at(o_gradient, first, h), o_gradient.stride, count,
                                           width, own.o_gradient);
          }
          const std::int64_t key = b * shape.k_length + j;
          const auto k_tile = detail::wide_tile(team, at(k, key, kv), k.stride, keys, width, own.k);
          const auto v_tile = detail::wide_tile(team, at(v, key, kv), v.stride, keys, width, own.v);
          const detail::tile<sum_type> shares{own.scores, keys};
          const detail::tile<sum_type> slopes{own.gradients, keys};
          const sum_type one{1};
          detail::multiply_tiles(as_stored, transposed, count, keys, width,
                                 static_cast<sum_type>(shape.scale), q_tile, k_tile, sum_type{0},
                                 own.scores, keys);
          detail::multiply_tiles(as_stored, transposed, count, keys, width, one, slope_tile, v_tile,
                                 sum_type{0}, own.gradients, keys);
          for (std::int64_t i = 0; i < count; ++i) {
            detail::score_gradients_of_row(
                team, own.scores + i * keys, own.gradients + i * keys,
                shape.seen(b, begin + i, j, keys), keys, kept[begin + i], own.inner[i],
                static_cast<sum_type>(shape.scale), shape.dropout,
                shape.dropout.row_start(b, h, shape.q_positions.at(begin + i)) +
                    shape.k_positions.at(j));
          }
          detail::multiply_tiles(transposed, as_stored, keys, width, count, one, shares, slope_tile,
                                 one, v_sums + j * v_stride, v_stride);
          detail::multiply_tiles(as_stored, as_stored, count, width, keys, one, slopes, k_tile,
                                 fresh ? sum_type{0} : one, own.q_sums, width);
          detail::multiply_tiles(transposed, as_stored, keys, width, count, one, slopes, q_tile,
                                 one, k_sums + j * sums_stride, sums_stride);
          fresh = false;
        });
        if (fresh && q_how == output::accumulate) continue;
        for (std::int64_t i = 0; i < count; ++i) {
          Out* to = at(dq, first + i, h);
          const sum_type* from = own.q_sums + i * width;
          if (q_how == output::accumulate) {
            team.for_each(width, [=](std::int64_t x) { to[x] = Out(widen(to[x]) + from[x]); });
          } else {
            // No key was seen by any row: nothing was written.
            team.for_each(width,
                          [=](std::int64_t x) { to[x] = fresh ? Out(sum_type{0}) : Out(from[x]); });
          }
        }
      }
    }
    if constexpr (!in_place) {
      for (std::int64_t j = 0; j < shape.k_length; ++j) {
        Out* k_to = at(dk, b * shape.k_length + j, kv);
        Out* v_to = at(dv, b * shape.k_length + j, kv);
        team.for_each(width, [=](std::int64_t x) {
          k_to[x] = Out(k_sums[j * width + x]);
          v_to[x] = Out(v_sums[j * width + x]);
        });
      }
    }
  });
}

/// The backward of `attention`: see `attention_backward_of_block`.
template <element T>
void attention_backward(matrix_view<T> dq, matrix_view<T> dk, matrix_view<T> dv,
                        input<T> o_gradient, input<T> q, input<T> k, input<T> v, input<T> o,
                        input_span<wide<T>> log_sum_exp, const attention_shape& shape) {
  attention_backward_of_block<T>(dq, dk, dv, o_gradient, q, k, v, o, log_sum_exp, shape,
                                 output::overwrite);
}

}  // namespace tenon::inline v0::kernel
