// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/kernel/rows/row_blocks.hpp"

// Rows on their way to experts and back. A *slot* is one choice of one token: slot t * k + i is the
// i-th choice of token t.
namespace tenon::inline v0::kernel {

/// Sorts slots by expert, in an expert by slot: slot s comes to place row_of_slot[s], and place r
/// is taken by slot_of_row[r]. counts[e] is the number of slots of expert e. Linear in both; on the
/// host, in memory of the host.
/// Errors: bad_request when the sizes differ, or a choice is no expert.
inline void sort_slots(std::span<std::int64_t> row_of_slot, std::span<std::int64_t> slot_of_row,
                       std::span<std::int64_t> counts, std::span<const std::int32_t> chosen) {
  if (shapes_only::active()) return;
  require(row_of_slot.size() == chosen.size() && slot_of_row.size() == chosen.size(),
          "sort_slots: ", chosen.size(), " slots were given and room for ", row_of_slot.size(),
          " and ", slot_of_row.size(), "; give as much");
  for (std::int64_t& count : counts) count = 0;
  for (const std::int32_t expert : chosen) {
    require(expert >= 0 && expert < std::ssize(counts), "sort_slots: expert ", expert,
            " was chosen of ", std::ssize(counts), "; choose one that there is");
    ++counts[static_cast<std::size_t>(expert)];
  }
  // Each count becomes the end of its expert's rows; filled from the last slot, it is their begin.
  std::int64_t end = 0;
  for (std::int64_t& count : counts) count = end += count;
  for (std::size_t slot = chosen.size(); slot-- > 0;) {
    const std::int64_t row = --counts[static_cast<std::size_t>(chosen[slot])];
    row_of_slot[slot] = row;
    slot_of_row[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(slot);
  }
  for (std::size_t e = 0; e < counts.size(); ++e) {
    counts[e] = (e + 1 < counts.size() ? counts[e + 1] : std::ssize(chosen)) - counts[e];
  }
}

namespace programs {

/// One row of `gather_rows`.
template <element T>
struct gather_rows {
  static constexpr std::string_view name = "gather_rows";
  matrix_view<T> to;
  matrix_view<const T> from;
  const std::int64_t* index;
  std::int64_t shared;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    using W = wide<T>;
    team.apply(
        to.columns, [](W& out, W value) { out = value; }, only_written{to.row(row)},
        from.row(index[row] / shared));
  }
};

/// One token of `combine_rows`; without shares, of `sum_of_slots`.
template <element T>
struct combine_rows {
  using W = wide<T>;
  static constexpr std::string_view name = "combine_rows";
  matrix_view<T> y;
  matrix_view<const T> rows;
  const std::int64_t* row_of_slot;
  matrix_view<const W> shares;  // [tokens, k], or of no data
  std::int64_t k;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t t) const {
    T* to = y.row(t);
    const W* share = shares.data == nullptr ? nullptr : shares.row(t);
    const std::int64_t* index = row_of_slot + t * k;
    team.for_each(y.columns, [=, this](std::int64_t j) {
      W sum{0};
      for (std::int64_t i = 0; i < k; ++i) {
        const W value = widen(rows.row(index[i])[j]);
        sum += share == nullptr ? value : share[i] * value;
      }
      to[j] = T(sum);
    });
  }
};

/// One token of `combine_rows_backward`.
template <element T>
struct combine_rows_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "combine_rows_backward";
  static constexpr int teams_at_once = 8;
  matrix_view<W> dshares;
  matrix_view<T> rows;
  matrix_view<const T> dy;
  const std::int64_t* row_of_slot;
  matrix_view<const W> shares;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t t) const {
    const T* gradient = dy.row(t);
    for (std::int64_t i = 0; i < shares.columns; ++i) {
      T* row = rows.row(row_of_slot[t * shares.columns + i]);
      const W share = shares(t, i);
      const W slope = team.template sum_of<W>(
          dy.columns, [](W a, W b) { return a * b; }, gradient, static_cast<const T*>(row));
      team.barrier();
      team.once([&] { dshares(t, i) = slope; });
      team.apply(
          dy.columns, [=](W& out, W value) { out = share * value; }, only_written{row}, gradient);
    }
  }
};

}  // namespace programs

/// to[r] = from[index[r] / shared]: with shared = k, the rows of tokens in the order of slots.
template <element T>
void gather_rows(matrix_view<T> to, input<T> from, std::span<const std::int64_t> index,
                 std::int64_t shared = 1) {
  require(shapes_only::active() || std::ssize(index) == to.rows, "gather_rows: ", std::ssize(index),
          " indices were given for ", to.rows, " rows; give one for each row");
  require(to.columns == from.columns, "gather_rows: rows of ", to.columns,
          " were asked for from rows of ", from.columns, "; give the same width");
  for_each_team(to.rows, {.elements_each = to.columns},
                programs::gather_rows<T>{to, from, index.data(), shared});
}

/// y[t] = sum over i of shares(t, i) x rows[row_of_slot[t k + i]], added up in the order of the
/// choices in the wide element and rounded once.
template <element T>
void combine_rows(matrix_view<T> y, input<T> rows, std::span<const std::int64_t> row_of_slot,
                  input<wide<T>> shares) {
  const std::int64_t k = shares.columns;
  for_each_team(y.rows, {.elements_each = y.columns * k},
                programs::combine_rows<T>{y, rows, row_of_slot.data(), shares, k});
}

/// The backward of `combine_rows`: dshares(t, i) = dy[t] . rows[of its slot], and in the place of
/// each row its gradient shares(t, i) x dy[t].
template <element T>
void combine_rows_backward(matrix_view<wide<T>> dshares, matrix_view<T> rows, input<T> dy,
                           std::span<const std::int64_t> row_of_slot, input<wide<T>> shares) {
  const std::int64_t k = shares.columns;
  for_each_team(dy.rows, {.elements_each = dy.columns * k},
                programs::combine_rows_backward<T>{dshares, rows, dy, row_of_slot.data(), shares});
}

/// The backward of giving a token's row to its k slots: dx[t] = sum over i of
/// rows[row_of_slot[t k + i]], added up as in `combine_rows`.
template <element T>
void sum_of_slots(matrix_view<T> dx, input<T> rows, std::span<const std::int64_t> row_of_slot,
                  std::int64_t k) {
  for_each_team(dx.rows, {.elements_each = dx.columns * k},
                programs::combine_rows<T>{dx, rows, row_of_slot.data(), {}, k});
}

}  // namespace tenon::inline v0::kernel
