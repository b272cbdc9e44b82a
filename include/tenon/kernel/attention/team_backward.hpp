// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/kernel/attention/team_tiles.hpp"

// The backward of attention on teams of many lanes, in three programs and without atomic sums, so
// that its result is the same in every run: `inner` of each query row, then dq by query tiles and
// dk, dv by key tiles, each of which computes the probabilities again.
namespace tenon::inline v0::kernel::programs {

/// inner[b, h, i] = the sum over the head's columns of o times its gradient. Program: a row.
template <element T>
struct attention_inner {
  static constexpr std::string_view name = "attention_inner";
  static constexpr int threads = 128;

  wide<T>* inner;  // [batch, heads, q_length]
  matrix_view<const T> o, o_gradient;
  std::int64_t heads;
  std::int64_t q_length;
  std::int64_t width;

  /// A warp takes a head at a time.
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    using W = wide<T>;
    const std::int64_t b = row / q_length;
    const std::int64_t i = row % q_length;
    const std::int64_t lane = team.rank() % warp_lanes;
    constexpr std::int64_t warps = Team::size() / warp_lanes;
    // All warps go round alike: shuffles are for whole warps.
    for (std::int64_t round = 0; round < (heads + warps - 1) / warps; ++round) {
      const std::int64_t h = round * warps + team.rank() / warp_lanes;
      W sum{0};
      if (h < heads) {
        const T* value = o.row(row) + h * width;
        const T* slope = o_gradient.row(row) + h * width;
        for (std::int64_t x = lane; x < width; x += warp_lanes) {
          sum += widen(value[x]) * widen(slope[x]);
        }
      }
      for (int mask = warp_lanes / 2; mask > 0; mask /= 2) sum += team.shuffle_xor(sum, mask);
      if (lane == 0 && h < heads) inner[(b * heads + h) * q_length + i] = sum;
    }
  }
};

/// The gradient of 64 query rows of one head: see `attention_backward_of_block`.
template <element T, element Out, int Width>
struct attention_backward_queries {
  using sizes = detail::attention_sizes<T, Width>;
  static constexpr std::string_view name = "attention_backward_queries";
  static constexpr int threads = sizes::threads;
  static constexpr bool lanes_have_places = true;

  matrix_view<Out> dq;
  matrix_view<const T> o_gradient, q, k, v;
  const wide<T>* log_sum_exp;  // [batch, heads, q_length]
  const wide<T>* inner;
  attention_shape shape;
  detail::kv_heads_table table;
  output how;

  static constexpr std::int64_t scratch_bytes() noexcept { return sizes::scratch_bytes(2); }

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t program) const {
    using W = wide<T>;
    constexpr int stride = sizes::stride;
    constexpr int tile = sizes::tile;
    const detail::row_tiles queries(shape.q_positions, shape.q_length, sizes::rows);
    const region here = queries.of(queries.count() - 1 - program % queries.count());
    const std::int64_t h = program / queries.count() % shape.heads;
    const std::int64_t b = program / queries.count() / shape.heads;
    const std::int64_t kv = table.kv[h];
    const std::int64_t width = shape.width;
    const int lane = static_cast<int>(team.rank()) % warp_lanes;
    const int first_row = static_cast<int>(team.rank()) / warp_lanes * 16;

    T* q_rows = team.template scratch<T>(sizes::rows * stride);
    T* slopes = team.template scratch<T>(sizes::rows * stride);
    T* k_rows = team.template scratch<T>(tile * stride);
    T* v_rows = team.template scratch<T>(tile * stride);
    T* space = team.template scratch<T>(threads / warp_lanes * sizes::space) +
               team.rank() / warp_lanes * sizes::space;
    const std::int64_t begin = b * shape.q_length + here.begin;
    detail::fill_tile<sizes::rows, Width>(team, q_rows, stride, q.row(begin) + h * width, q.stride,
                                          here.size, width);
    detail::fill_tile<sizes::rows, Width>(team, slopes, stride, o_gradient.row(begin) + h * width,
                                          o_gradient.stride, here.size, width);
    sum_tile<W> sums[Width / 8] = {};

    const detail::row_tiles keys(shape.k_positions, shape.k_length, tile);
    for (std::int64_t t = 0; t < keys.count(); ++t) {
      const region there = keys.of(t);
      if (detail::keys_seen(shape, b, here, there) == 0) continue;
      team.barrier();
      const std::int64_t row = b * shape.k_length + there.begin;
      detail::fill_tile<tile, Width>(team, k_rows, stride, k.row(row) + kv * width, k.stride,
                                     there.size, width);
      detail::fill_tile<tile, Width>(team, v_rows, stride, v.row(row) + kv * width, v.stride,
                                     there.size, width);
      team.barrier();
      sum_tile<W> scores[tile / 8] = {};
      sum_tile<W> gradients[tile / 8] = {};
      detail::multiply_by_rows<Width, tile, T>(team, lane, scores, q_rows + first_row * stride,
                                               k_rows, stride);
      detail::multiply_by_rows<Width, tile, T>(team, lane, gradients, slopes + first_row * stride,
                                               v_rows, stride);
      detail::unrolled<2>([&](auto half) {
        const std::int64_t i = here.begin + first_row + sum_row(lane, 2 * half);
        const bool real = i < here.end();
        const region seen = real ? shape.seen(b, i, there.begin, there.size) : region{0, 0};
        const std::int64_t at = (b * shape.heads + h) * shape.q_length + i;
        const W whole = real ? log_sum_exp[at] : W{0};
        const W mean = real ? inner[at] : W{0};
        const auto scale = static_cast<W>(shape.scale);
        detail::unrolled<tile / 8>([&](auto n) {
          for (int j = 0; j < 2; ++j) {
            const int key = 8 * n + sum_column(lane, j);
            W& score = scores[n].values[2 * half + j];
            const bool sees = key >= seen.begin && key < seen.end();
            const W share = sees ? exponential(score * scale - whole) : W{0};
            W slope = gradients[n].values[2 * half + j];
            if (shape.dropout.p > 0 && sees) {
              slope *= detail::kept_share<W>(
                  shape.dropout, shape.dropout.row_start(b, h, shape.q_positions.at(i)) +
                                     shape.k_positions.at(there.begin) + key);
            }
            score = share * (slope - mean) * scale;
          }
        });
      });
      detail::multiply_by_tile<Width, tile, T>(team, lane, sums, scores, k_rows, stride, space);
    }
    detail::unrolled<2>([&](auto half) {
      const std::int64_t i = here.begin + first_row + sum_row(lane, 2 * half);
      if (i >= here.end()) return;
      Out* to = dq.row(b * shape.q_length + i) + h * width;
      detail::unrolled<Width / 8>([&](auto n) {
        for (int j = 0; j < 2; ++j) {
          const int x = 8 * n + sum_column(lane, j);
          if (x >= width) continue;
          const W before = how == output::accumulate ? widen(to[x]) : W{0};
          to[x] = Out(before + sums[n].values[2 * half + j]);
        }
      });
    });
  }
};

/// The gradients of 64 keys and values of one kv head, summed over the q heads that read them in
/// the order of the heads: see `attention_backward_of_block`.
template <element T, element Out, int Width>
struct attention_backward_keys {
  using sizes = detail::attention_sizes<T, Width>;
  static constexpr std::string_view name = "attention_backward_keys";
  static constexpr int threads = sizes::threads;
  static constexpr bool lanes_have_places = true;

  matrix_view<Out> dk, dv;
  matrix_view<const T> o_gradient, q, k, v;
  const wide<T>* log_sum_exp;  // [batch, heads, q_length]
  const wide<T>* inner;
  attention_shape shape;
  detail::kv_heads_table table;

  static std::int64_t tiles(const attention_shape& s) noexcept {
    return detail::row_tiles(s.k_positions, s.k_length, sizes::rows).count();
  }
  static constexpr std::int64_t scratch_bytes() noexcept { return sizes::scratch_bytes(2); }

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t program) const {
    using W = wide<T>;
    constexpr int stride = sizes::stride;
    constexpr int tile = sizes::tile;
    const detail::row_tiles keys(shape.k_positions, shape.k_length, sizes::rows);
    // The first keys are seen by the most queries: they start first.
    const region here = keys.of(program % keys.count());
    const std::int64_t kv = program / keys.count() % shape.kv_heads;
    const std::int64_t b = program / keys.count() / shape.kv_heads;
    const std::int64_t width = shape.width;
    const int lane = static_cast<int>(team.rank()) % warp_lanes;
    const int first_row = static_cast<int>(team.rank()) / warp_lanes * 16;

    T* k_rows = team.template scratch<T>(sizes::rows * stride);
    T* v_rows = team.template scratch<T>(sizes::rows * stride);
    T* q_rows = team.template scratch<T>(tile * stride);
    T* slopes = team.template scratch<T>(tile * stride);
    T* space = team.template scratch<T>(threads / warp_lanes * sizes::space) +
               team.rank() / warp_lanes * sizes::space;
    const std::int64_t begin = b * shape.k_length + here.begin;
    detail::fill_tile<sizes::rows, Width>(team, k_rows, stride, k.row(begin) + kv * width, k.stride,
                                          here.size, width);
    detail::fill_tile<sizes::rows, Width>(team, v_rows, stride, v.row(begin) + kv * width, v.stride,
                                          here.size, width);
    sum_tile<W> k_sums[Width / 8] = {};
    sum_tile<W> v_sums[Width / 8] = {};

    const detail::row_tiles queries(shape.q_positions, shape.q_length, tile);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      if (table.kv[h] != kv) continue;
      for (std::int64_t t = 0; t < queries.count(); ++t) {
        const region there = queries.of(t);
        if (detail::keys_seen(shape, b, there, here) == 0) continue;
        team.barrier();
        const std::int64_t row = b * shape.q_length + there.begin;
        detail::fill_tile<tile, Width>(team, q_rows, stride, q.row(row) + h * width, q.stride,
                                       there.size, width);
        detail::fill_tile<tile, Width>(team, slopes, stride, o_gradient.row(row) + h * width,
                                       o_gradient.stride, there.size, width);
        team.barrier();
        // Rows are keys, columns queries: the transposes of what the forward holds.
        sum_tile<W> scores[tile / 8] = {};
        sum_tile<W> gradients[tile / 8] = {};
        detail::multiply_by_rows<Width, tile, T>(team, lane, scores, k_rows + first_row * stride,
                                                 q_rows, stride);
        detail::multiply_by_rows<Width, tile, T>(team, lane, gradients, v_rows + first_row * stride,
                                                 slopes, stride);
        detail::unrolled<tile / 8>([&](auto n) {
          for (int j = 0; j < 2; ++j) {
            const std::int64_t i = there.begin + 8 * n + sum_column(lane, j);
            column_gradients(lane, first_row, b, h, i, i < there.end(), j, here, scores[n],
                             gradients[n]);
          }
        });
        detail::multiply_by_tile<Width, tile, T>(team, lane, v_sums, scores, slopes, stride, space);
        detail::multiply_by_tile<Width, tile, T>(team, lane, k_sums, gradients, q_rows, stride,
                                                 space);
      }
    }
    detail::unrolled<2>([&](auto half) {
      const std::int64_t i = here.begin + first_row + sum_row(lane, 2 * half);
      if (i >= here.end()) return;
      Out* k_to = dk.row(b * shape.k_length + i) + kv * width;
      Out* v_to = dv.row(b * shape.k_length + i) + kv * width;
      detail::unrolled<Width / 8>([&](auto n) {
        for (int j = 0; j < 2; ++j) {
          const int x = 8 * n + sum_column(lane, j);
          if (x >= width) continue;
          k_to[x] = Out(k_sums[n].values[2 * half + j]);
          v_to[x] = Out(v_sums[n].values[2 * half + j]);
        }
      });
    });
  }

 private:
  // Column j of a lane, query i: its scores become probabilities, and `gradients`, of these, the
  // gradients of the scores.
  TENON_BOTH void column_gradients(int lane, int first_row, std::int64_t b, std::int64_t h,
                                   std::int64_t i, bool real, int j, region here,
                                   sum_tile<wide<T>>& scores, sum_tile<wide<T>>& gradients) const {
    using W = wide<T>;
    const region seen = real ? shape.seen(b, i, here.begin, here.size) : region{0, 0};
    const std::int64_t at = (b * shape.heads + h) * shape.q_length + i;
    const W whole = real ? log_sum_exp[at] : W{0};
    const W mean = real ? inner[at] : W{0};
    const auto scale = static_cast<W>(shape.scale);
    for (int half = 0; half < 2; ++half) {
      const int key = first_row + sum_row(lane, 2 * half);
      W& score = scores.values[2 * half + j];
      W& slope = gradients.values[2 * half + j];
      const bool sees = key >= seen.begin && key < seen.end();
      const W share = sees ? exponential(score * scale - whole) : W{0};
      W kept{1};
      if (shape.dropout.p > 0 && sees) {
        kept = detail::kept_share<W>(shape.dropout,
                                     shape.dropout.row_start(b, h, shape.q_positions.at(i)) +
                                         shape.k_positions.at(here.begin) + key);
      }
      score = share * kept;
      slope = share * (slope * kept - mean) * scale;
    }
  }
};

}  // namespace tenon::inline v0::kernel::programs
