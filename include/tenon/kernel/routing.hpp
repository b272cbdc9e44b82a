// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tenon/kernel/rows/row_blocks.hpp"

// Rows on their way to experts and back. A *slot* is one choice of one token: slot t * k + i is the
// i-th choice of token t.
namespace tenon::inline v0::kernel {

/// Sorts slots by expert, in an expert by slot: slot s comes to place row_of_slot[s], and place r
/// is taken by slot_of_row[r]. counts[e] is the number of slots of expert e. Linear in both.
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

/// to[r] = from[index[r] / shared]: with shared = k, the rows of tokens in the order of slots.
template <element T>
void gather_rows(matrix_view<T> to, input<T> from, std::span<const std::int64_t> index,
                 std::int64_t shared = 1) {
  require(shapes_only::active() || std::ssize(index) == to.rows, "gather_rows: ", std::ssize(index),
          " indices were given for ", to.rows, " rows; give one for each row");
  require(to.columns == from.columns, "gather_rows: rows of ", to.columns,
          " were asked for from rows of ", from.columns, "; give the same width");
  for_each_team(to.rows, {.elements_each = to.columns}, [&](host_team& team, std::int64_t row) {
    T* target = to.row(row);
    const T* source = from.row(index[static_cast<std::size_t>(row)] / shared);
    team.for_each(to.columns, [=](std::int64_t j) { target[j] = source[j]; });
  });
}

/// y[t] = sum over i of shares(t, i) x rows[row_of_slot[t k + i]], added up in the order of the
/// choices in the wide element and rounded once.
template <element T>
void combine_rows(matrix_view<T> y, input<T> rows, std::span<const std::int64_t> row_of_slot,
                  input<wide<T>> shares) {
  const std::int64_t k = shares.columns;
  for_each_team(y.rows, {.elements_each = y.columns * k}, [&](host_team& team, std::int64_t t) {
    T* to = y.row(t);
    const wide<T>* share = shares.row(t);
    const std::int64_t* index = row_of_slot.data() + t * k;
    team.for_each(y.columns, [=](std::int64_t j) {
      wide<T> sum{0};
      for (std::int64_t i = 0; i < k; ++i) sum += share[i] * widen(rows.row(index[i])[j]);
      to[j] = T(sum);
    });
  });
}

/// The backward of `combine_rows`: dshares(t, i) = dy[t] . rows[of its slot], and in the place of
/// each row its gradient shares(t, i) x dy[t].
template <element T>
void combine_rows_backward(matrix_view<wide<T>> dshares, matrix_view<T> rows, input<T> dy,
                           std::span<const std::int64_t> row_of_slot, input<wide<T>> shares) {
  const std::int64_t k = shares.columns;
  for_each_team(dy.rows, {.elements_each = dy.columns * k}, [&](host_team& team, std::int64_t t) {
    const T* gradient = dy.row(t);
    for (std::int64_t i = 0; i < k; ++i) {
      T* row = rows.row(row_of_slot[static_cast<std::size_t>(t * k + i)]);
      const wide<T> share = shares(t, i);
      dshares(t, i) = team.sum<wide<T>>(
          dy.columns, [=](std::int64_t j) { return widen(gradient[j]) * widen(row[j]); });
      team.for_each(dy.columns, [=](std::int64_t j) { row[j] = T(share * widen(gradient[j])); });
    }
  });
}

/// The backward of giving a token's row to its k slots: dx[t] = sum over i of
/// rows[row_of_slot[t k + i]], added up as in `combine_rows`.
template <element T>
void sum_of_slots(matrix_view<T> dx, input<T> rows, std::span<const std::int64_t> row_of_slot,
                  std::int64_t k) {
  for_each_team(dx.rows, {.elements_each = dx.columns * k}, [&](host_team& team, std::int64_t t) {
    T* to = dx.row(t);
    const std::int64_t* index = row_of_slot.data() + t * k;
    team.for_each(dx.columns, [=](std::int64_t j) {
      wide<T> sum{0};
      for (std::int64_t i = 0; i < k; ++i) sum += widen(rows.row(index[i])[j]);
      to[j] = T(sum);
    });
  });
}

}  // namespace tenon::inline v0::kernel
