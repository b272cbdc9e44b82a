// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/rows/row_blocks.hpp"

namespace tenon::inline v0::kernel {

/// y[row] = table[token - row_begin] where the token is in this shard of the vocabulary, rows
/// row_begin .. row_begin + table.rows - 1; else zeros, or, with `accumulate`, what is in y. The
/// sum over the shards is the lookup. y [tokens, columns], table [vocabulary here, columns].
template <element T>
void embedding(matrix_view<T> y, std::span<const std::int32_t> tokens, input<T> table,
               std::int64_t row_begin = 0, output how = output::overwrite) {
  require(y.columns == table.columns, "embedding: rows of ", y.columns,
          " were asked for from a table of rows of ", table.columns, "; give the same width");
  require(static_cast<std::int64_t>(tokens.size()) == y.rows || shapes_only::active(),
          "embedding: ", static_cast<std::int64_t>(tokens.size()), " tokens were given for ",
          y.rows, " rows; give one for each row");
  for_each_team(y.rows, {.elements_each = y.columns}, [&](host_team& team, std::int64_t row) {
    T* to = y.row(row);
    const std::int64_t word = tokens[static_cast<std::size_t>(row)] - row_begin;
    if (word >= 0 && word < table.rows) {
      const T* from = table.row(word);
      team.for_each(y.columns, [=](std::int64_t j) { to[j] = from[j]; });
    } else if (how == output::overwrite) {
      team.for_each(y.columns, [=](std::int64_t j) { to[j] = T(wide<T>{0}); });
    }
  });
}

/// table_gradient[token - row_begin] += dy[row], in the order of the rows, for the tokens of this
/// shard; the gradient is wide. Threads share the columns, so the result does not depend on them.
template <class Gradient>
void embedding_backward(matrix_view<wide<std::remove_const_t<Gradient>>> table_gradient,
                        std::span<const std::int32_t> tokens, matrix_view<Gradient> dy,
                        std::int64_t row_begin = 0) {
  require(dy.columns == table_gradient.columns, "embedding_backward: rows of ", dy.columns,
          " were given for a table of rows of ", table_gradient.columns, "; give the same width");
  require(static_cast<std::int64_t>(tokens.size()) == dy.rows || shapes_only::active(),
          "embedding_backward: ", static_cast<std::int64_t>(tokens.size()),
          " tokens were given for ", dy.rows, " rows; give one for each row");
  const std::int64_t piece = detail::columns_each(dy.columns);
  for_each_range(dy.columns, piece, {.elements_each = dy.rows * piece},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = 0; row < dy.rows; ++row) {
                     const std::int64_t word = tokens[static_cast<std::size_t>(row)] - row_begin;
                     if (word < 0 || word >= table_gradient.rows) continue;
                     auto* to = table_gradient.row(word) + begin;
                     const Gradient* from = dy.row(row) + begin;
                     team.for_each(end - begin, [=](std::int64_t j) { to[j] += widen(from[j]); });
                   }
                 });
}

/// x[row] += table[place_of(row)]: learned positions, for x [batch * sequence, columns] and table
/// [positions, columns]. The places are rows of the table.
template <element T, std::invocable<std::int64_t> PlaceOf>
void add_positions(matrix_view<T> x, input<T> table, PlaceOf&& place_of) {
  if (x.rows == 0) return;
  require(x.columns == table.columns, "add_positions: rows of ", x.columns,
          " were given for a table of rows of ", table.columns, "; give the same width");
  for_each_team(x.rows, {.elements_each = x.columns}, [&](host_team& team, std::int64_t row) {
    T* to = x.row(row);
    const T* from = table.row(place_of(row));
    team.for_each(x.columns, [=](std::int64_t j) { to[j] = T(widen(to[j]) + widen(from[j])); });
  });
}

/// table_gradient[place_of(row)] += dy[row], in the order of the rows, wide. Threads share the
/// columns, so the result does not depend on them.
template <class Gradient, std::invocable<std::int64_t> PlaceOf>
void add_positions_backward(matrix_view<wide<std::remove_const_t<Gradient>>> table_gradient,
                            matrix_view<Gradient> dy, PlaceOf&& place_of) {
  if (dy.rows == 0) return;
  require(dy.columns == table_gradient.columns, "add_positions_backward: rows of ", dy.columns,
          " were given for a table of rows of ", table_gradient.columns, "; give the same width");
  const std::int64_t piece = detail::columns_each(dy.columns);
  for_each_range(dy.columns, piece, {.elements_each = dy.rows * piece},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = 0; row < dy.rows; ++row) {
                     auto* to = table_gradient.row(place_of(row)) + begin;
                     const Gradient* from = dy.row(row) + begin;
                     team.for_each(end - begin, [=](std::int64_t j) { to[j] += widen(from[j]); });
                   }
                 });
}

}  // namespace tenon::inline v0::kernel
