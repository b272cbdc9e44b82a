// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tenon/kernel/product.hpp"

// Products of rows that belong to groups, each group with a matrix of its own:
//
//   rows      | group 0 ... | group 1 ... | group 2 | ...      counts[g] rows of group g, in order
//   weights   [ W0 ; W1 ; W2 ; ... ]                           one below the other
namespace tenon::inline v0::kernel {

namespace detail {

// Calls f(first row, rows, first row of the group's matrix, its rows) for the groups that have
// rows. In a run for shapes too: the products then count their scratch.
template <class F>
void for_each_group_of_rows(const char* kernel, std::int64_t rows, std::int64_t matrix_rows,
                            std::span<const std::int64_t> counts, F&& f) {
  const auto groups = std::ssize(counts);
  require(groups == 0 || matrix_rows % groups == 0, kernel, ": ", matrix_rows,
          " rows of weights were given for ", groups, " groups; give each group as many");
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t count = counts[static_cast<std::size_t>(g)];
    require(count >= 0 && begin + count <= rows, kernel, ": the counts of the groups exceed the ",
            rows, " rows; give counts that sum to them");
    if (count > 0) f(begin, count, g * (matrix_rows / groups), matrix_rows / groups);
    begin += count;
  }
  require(begin == rows, kernel, ": the groups have ", begin, " rows and ", rows,
          " were given; give counts that sum to them");
}

}  // namespace detail

/// C[rows of g] = A[rows of g] op(W_g) for every group g, or C += that. C [rows, n], A [rows, k], W
/// [groups x k, n] (transposed: [groups x n, k]). Errors: bad_request when the sizes do not fit.
template <class C, class A, class W>
void grouped_product(matrix_view<C> c, matrix_view<A> a, matrix_view<W> weights, orientation form,
                     std::span<const std::int64_t> counts, output how = output::overwrite) {
  require(c.rows == a.rows, "grouped_product: a result of ", c.rows, " rows was asked for from ",
          a.rows, "; give as many");
  detail::for_each_group_of_rows(
      "grouped_product", c.rows, weights.rows, counts,
      [&](std::int64_t begin, std::int64_t count, std::int64_t first, std::int64_t each) {
        product(c.rows_from(begin, count), a.rows_from(begin, count), orientation::as_stored,
                weights.rows_from(first, each), form, how);
      });
}

/// W_g += transposed A[rows of g] B[rows of g] for every group g: the gradient of the weights. W
/// [groups x m, n], A [rows, m], B [rows, n]. A group without rows is left as it is.
/// Errors: bad_request when the sizes do not fit.
template <class W, class A, class B>
void grouped_outer_product(matrix_view<W> gradients, matrix_view<A> a, matrix_view<B> b,
                           std::span<const std::int64_t> counts) {
  require(a.rows == b.rows, "grouped_outer_product: ", a.rows, " and ", b.rows,
          " rows were given; give as many");
  detail::for_each_group_of_rows(
      "grouped_outer_product", a.rows, gradients.rows, counts,
      [&](std::int64_t begin, std::int64_t count, std::int64_t first, std::int64_t each) {
        product(gradients.rows_from(first, each), a.rows_from(begin, count),
                orientation::transposed, b.rows_from(begin, count), orientation::as_stored,
                output::accumulate);
      });
}

}  // namespace tenon::inline v0::kernel
