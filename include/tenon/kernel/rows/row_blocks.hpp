// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::kernel {

/// A matrix or span that a kernel reads; the element is deduced from its results alone, so that
/// views of non-const elements convert.
template <class T>
using input = std::type_identity_t<matrix_view<const T>>;
template <class T>
using input_span = std::type_identity_t<std::span<const T>>;

namespace detail {

template <class A, class B>
void require_rows(const char* kernel, const matrix_view<A>& a, const matrix_view<B>& b) {
  require(a.rows == b.rows && a.columns == b.columns, kernel, ": ", a.rows, " x ", a.columns,
          " and ", b.rows, " x ", b.columns, " were given; give the same sizes");
}

/// Sums over rows that a program finds while it works on each row, such as the gradient of a gain.
/// Rows are cut in blocks whose number depends on the rows alone; every block has sums of its own,
/// added up in order: the result does not depend on the number of threads.
template <class Sum>
class row_blocks {
 public:
  /// `kinds` sums of `columns` numbers each.
  row_blocks(std::int64_t rows, std::int64_t columns, std::int64_t kinds)
      : rows_(rows),
        columns_(columns),
        kinds_(kinds),
        block_(std::max<std::int64_t>(fewest_rows, (rows + most_blocks - 1) / most_blocks)),
        count_((rows + block_ - 1) / block_),
        sums_(count_ * kinds * columns) {}

  /// program(team, row, sums of kind 0, sums of kind 1, ...) for all rows.
  template <class Program>
  void run(Program&& program) {
    for_each_range(rows_, block_, {.elements_each = block_ * columns_},
                   [&](host_team& team, std::int64_t begin, std::int64_t end) {
                     Sum* own = sums_.data() + begin / block_ * kinds_ * columns_;
                     team.for_each(kinds_ * columns_, [=](std::int64_t j) { own[j] = 0; });
                     for (std::int64_t row = begin; row < end; ++row) {
                       if constexpr (requires { program(team, row, own, own); }) {
                         program(team, row, own, own + columns_);
                       } else {
                         program(team, row, own);
                       }
                     }
                   });
  }

  /// to[j] += the sum of kind `kind` over all rows.
  void add_to(std::int64_t kind, std::span<Sum> to) const {
    require(static_cast<std::int64_t>(to.size()) == columns_ || shapes_only::active(),
            "row_blocks: ", static_cast<std::int64_t>(to.size()), " sums were given for ", columns_,
            " columns; give as many");
    for_each_range(columns_, 1024, {.elements_each = count_ * 1024},
                   [&](host_team& team, std::int64_t begin, std::int64_t end) {
                     Sum* target = to.data() + begin;
                     for (std::int64_t block = 0; block < count_; ++block) {
                       const Sum* from = sums_.data() + (block * kinds_ + kind) * columns_ + begin;
                       team.for_each(end - begin, [=](std::int64_t j) { target[j] += from[j]; });
                     }
                   });
  }

 private:
  static constexpr std::int64_t fewest_rows = 32;
  static constexpr std::int64_t most_blocks = 64;

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t kinds_;
  std::int64_t block_;
  std::int64_t count_;
  buffer<Sum> sums_;  // [count, kinds, columns]
};

}  // namespace detail

}  // namespace tenon::inline v0::kernel
