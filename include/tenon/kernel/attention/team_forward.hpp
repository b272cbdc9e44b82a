// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "tenon/kernel/attention/team_tiles.hpp"

namespace tenon::inline v0::kernel::programs {

/// 64 query rows of one head against all keys: see `attention_to_block`. Program i is query tile
/// i % tiles, counted from the last, of head i / tiles.
/// Source: T. Dao, FlashAttention-2: faster attention with better parallelism and work
/// partitioning, 2023.
template <element T, element Out, int Width>
struct attention_forward {
  using sizes = detail::attention_sizes<T, Width>;
  static constexpr std::string_view name = "attention_forward";
  static constexpr int threads = sizes::threads;
  static constexpr bool lanes_have_places = true;

  matrix_view<Out> o;
  wide<T>* log_sum_exp;  // [batch, heads, q_length]
  matrix_view<const T> q, k, v;
  attention_shape shape;
  detail::kv_heads_table table;
  output how;

  static std::int64_t tiles(const attention_shape& s) noexcept {
    return detail::row_tiles(s.q_positions, s.q_length, sizes::rows).count();
  }
  static constexpr std::int64_t scratch_bytes() noexcept { return sizes::scratch_bytes(1); }

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
    T* k_rows = team.template scratch<T>(tile * stride);
    T* v_rows = team.template scratch<T>(tile * stride);
    T* space = team.template scratch<T>(threads / warp_lanes * sizes::space) +
               team.rank() / warp_lanes * sizes::space;
    detail::fill_tile<sizes::rows, Width>(team, q_rows, stride,
                                          q.row(b * shape.q_length + here.begin) + h * width,
                                          q.stride, here.size, width);
    sum_tile<W> sums[Width / 8] = {};
    W maximum[2] = {detail::lowest<W>, detail::lowest<W>};
    W total[2] = {0, 0};

    const detail::row_tiles keys(shape.k_positions, shape.k_length, tile);
    for (std::int64_t t = 0; t < keys.count(); ++t) {
      const region there = keys.of(t);
      if (detail::keys_seen(shape, b, here, there) == 0) continue;
      team.barrier();  // the tiles before are read
      const std::int64_t row = b * shape.k_length + there.begin;
      detail::fill_tile<tile, Width>(team, k_rows, stride, k.row(row) + kv * width, k.stride,
                                     there.size, width);
      detail::fill_tile<tile, Width>(team, v_rows, stride, v.row(row) + kv * width, v.stride,
                                     there.size, width);
      team.barrier();
      sum_tile<W> scores[tile / 8] = {};
      detail::multiply_by_rows<Width, tile, T>(team, lane, scores, q_rows + first_row * stride,
                                               k_rows, stride);
      detail::unrolled<2>([&](auto half) {
        exponentials(team, lane, here.begin + first_row + sum_row(lane, 2 * half), here.end(), b, h,
                     there, half, scores, sums, maximum[half], total[half]);
      });
      detail::multiply_by_tile<Width, tile, T>(team, lane, sums, scores, v_rows, stride, space);
    }
    detail::unrolled<2>([&](auto half) {
      const W all = detail::sum_of_row(team, total[half]);
      const std::int64_t i = here.begin + first_row + sum_row(lane, 2 * half);
      // The four lanes of a row read its log-sum-exp before one of them writes it.
      const std::int64_t kept_at = (b * shape.heads + h) * shape.q_length + i;
      const W kept =
          i < here.end() && how == output::accumulate ? log_sum_exp[kept_at] : detail::lowest<W>;
      team.warp_barrier();
      if (i < here.end()) {
        finish(lane, half, o.row(b * shape.q_length + i) + h * width, log_sum_exp[kept_at], kept,
               sums, maximum[half], all);
      }
    });
  }

 private:
  // Scores of one row become exponentials over the running maximum, 0 where no key is seen; what
  // was summed before is multiplied by the factor that the new maximum asks for.
  template <class Half, class Team, class W>
  TENON_BOTH void exponentials(const Team& team, int lane, std::int64_t i, std::int64_t end,
                               std::int64_t b, std::int64_t h, region there, Half,
                               sum_tile<W> (&scores)[sizes::tile / 8],
                               sum_tile<W> (&sums)[Width / 8], W& maximum, W& total) const {
    constexpr int half = Half::value;
    const region seen = i < end ? shape.seen(b, i, there.begin, there.size) : region{0, 0};
    const auto first = static_cast<int>(seen.begin);
    const auto last = static_cast<int>(seen.end());
    const auto scale = static_cast<W>(shape.scale);
    W most = maximum;
    detail::unrolled<sizes::tile / 8>([&](auto n) {
      for (int j = 0; j < 2; ++j) {
        const int key = 8 * n + sum_column(lane, j);
        W& score = scores[n].values[2 * half + j];
        score = key >= first && key < last ? score * scale : detail::lowest<W>;
        most = score > most ? score : most;
      }
    });
    for (int mask = 1; mask < 4; mask *= 2) {
      const W other = team.shuffle_xor(most, mask);
      most = other > most ? other : most;
    }
    const bool none = most == detail::lowest<W>;
    const W factor = none ? W{1} : exponential(maximum - most);
    W added{0};
    detail::unrolled<sizes::tile / 8>([&](auto n) {
      for (int j = 0; j < 2; ++j) {
        W& score = scores[n].values[2 * half + j];
        score = none ? W{0} : exponential(score - most);
        added += score;
        if (shape.dropout.p > 0 && score > W{0}) {
          score *= detail::kept_share<W>(
              shape.dropout, shape.dropout.row_start(b, h, shape.q_positions.at(i)) +
                                 shape.k_positions.at(there.begin) + 8 * n + sum_column(lane, j));
        }
      }
    });
    total = total * factor + added;
    maximum = most;
    detail::unrolled<Width / 8>([&](auto n) {
      for (int j = 0; j < 2; ++j) sums[n].values[2 * half + j] *= factor;
    });
  }

  // One row of results, or these merged with what is there: see `finish_row` of the host.
  template <class Half, class W>
  TENON_BOTH void finish(int lane, Half, Out* to, W& log_sum_exp_of_row, W kept,
                         const sum_tile<W> (&sums)[Width / 8], W maximum, W total) const {
    const bool none = total == W{0};
    const bool merges = how == output::accumulate && kept != detail::lowest<W>;
    if (merges && none) return;
    const W fresh = none ? detail::lowest<W> : maximum + std::log(total);
    W before{0};
    W now = none ? W{0} : W{1} / total;
    W both = fresh;
    if (merges) {
      const W most = kept > fresh ? kept : fresh;
      both = most + std::log(std::exp(kept - most) + std::exp(fresh - most));
      before = std::exp(kept - both);
      now = std::exp(fresh - both) / total;
    }
    detail::unrolled<Width / 8>([&](auto n) {
      for (int j = 0; j < 2; ++j) {
        const int x = 8 * n + sum_column(lane, j);
        if (x >= shape.width) continue;
        const W there = merges ? widen(to[x]) * before : W{0};
        to[x] = Out(there + sums[n].values[2 * Half::value + j] * now);
      }
    });
    if (lane % 4 == 0) log_sum_exp_of_row = both;
  }
};

}  // namespace tenon::inline v0::kernel::programs
