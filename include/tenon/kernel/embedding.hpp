// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/kernel/copies.hpp"
#include "tenon/kernel/row_places.hpp"
#include "tenon/kernel/rows/row_blocks.hpp"
#include "tenon/kernel/sorted_rows.hpp"

namespace tenon::inline v0::kernel {

namespace programs {

/// A row of `embedding`.
template <element T>
struct embedding {
  static constexpr std::string_view name = "embedding";
  matrix_view<T> y;
  token_rows row_of;
  matrix_view<const T> table;
  output how;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const std::int64_t word = row_of(row);
    if (word >= 0 && word < table.rows) {
      detail::copy_array(team, y.columns, y.row(row), table.row(word));
    } else if (how == output::overwrite) {
      team.apply(
          y.columns, [](wide<T>& value) { value = wide<T>{0}; }, only_written<T>{y.row(row)});
    }
  }
};

/// A row of `add_positions`.
template <element T>
struct add_positions {
  static constexpr std::string_view name = "add_positions";
  matrix_view<T> x;
  matrix_view<const T> table;
  row_places place_of;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    team.apply(
        x.columns, [](wide<T>& value, wide<T> position) { value = value + position; }, x.row(row),
        table.row(place_of(row)));
  }
};

}  // namespace programs

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
  for_each_team(y.rows, {.elements_each = y.columns},
                programs::embedding<T>{y, {tokens.data(), row_begin}, table, how});
}

/// table_gradient[token - row_begin] += dy[row], in the order of the rows, for the tokens of this
/// shard; the gradient is wide. The result does not depend on threads, nor on a device's lanes.
template <class Gradient>
void embedding_backward(matrix_view<wide<std::remove_const_t<Gradient>>> table_gradient,
                        std::span<const std::int32_t> tokens, matrix_view<Gradient> dy,
                        std::int64_t row_begin = 0) {
  require(dy.columns == table_gradient.columns, "embedding_backward: rows of ", dy.columns,
          " were given for a table of rows of ", table_gradient.columns, "; give the same width");
  require(static_cast<std::int64_t>(tokens.size()) == dy.rows || shapes_only::active(),
          "embedding_backward: ", static_cast<std::int64_t>(tokens.size()),
          " tokens were given for ", dy.rows, " rows; give one for each row");
  detail::add_rows_by_key(table_gradient, dy, token_rows{tokens.data(), row_begin});
}

/// x[row] += table[place_of(row)]: learned positions, for x [batch * sequence, columns] and table
/// [positions, columns]. The places are rows of the table.
template <element T>
void add_positions(matrix_view<T> x, input<T> table, const row_places& place_of) {
  if (x.rows == 0) return;
  require(x.columns == table.columns, "add_positions: rows of ", x.columns,
          " were given for a table of rows of ", table.columns, "; give the same width");
  for_each_team(x.rows, {.elements_each = x.columns},
                programs::add_positions<T>{x, table, place_of});
}

/// table_gradient[place_of(row)] += dy[row], in the order of the rows, wide. The result does not
/// depend on threads, nor on a device's lanes.
template <class Gradient>
void add_positions_backward(matrix_view<wide<std::remove_const_t<Gradient>>> table_gradient,
                            matrix_view<Gradient> dy, const row_places& place_of) {
  if (dy.rows == 0) return;
  require(dy.columns == table_gradient.columns, "add_positions_backward: rows of ", dy.columns,
          " were given for a table of rows of ", table_gradient.columns, "; give the same width");
  detail::add_rows_by_key(table_gradient, dy, place_of);
}

}  // namespace tenon::inline v0::kernel
