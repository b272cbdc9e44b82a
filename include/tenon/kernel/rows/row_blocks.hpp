// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

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

}  // namespace detail

namespace programs {

/// A block of rows of `row_blocks`: its sums lie in scratch until the last row is done.
template <class RowProgram, class Sum>
struct row_block {
  static constexpr std::string_view name = RowProgram::name;
  RowProgram each;
  Sum* sums;  // [blocks, kinds, columns]
  std::int64_t block;
  std::int64_t columns;
  std::int64_t kinds;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    Sum* own = team.template scratch<Sum>(kinds * columns);
    team.for_each(kinds * columns, [=](std::int64_t j) { own[j] = 0; });
    for (std::int64_t row = begin; row < end; ++row) {
      team.barrier();  // lanes may add to columns that others had in the row before
      each(team, row, own, own + (kinds - 1) * columns);
    }
    team.barrier();
    Sum* to = sums + begin / block * kinds * columns;
    team.for_each(kinds * columns, [=](std::int64_t j) { to[j] = own[j]; });
  }
};

/// to[j] += the sums of all blocks, in their order.
template <class Sum>
struct add_block_sums {
  static constexpr std::string_view name = "add_block_sums";
  Sum* to;
  const Sum* sums;  // of the kind, in the first block
  std::int64_t blocks;
  std::int64_t step;  // between blocks

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    Sum* target = to + begin;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Sum* from = sums + block * step + begin;
      team.for_each(end - begin, [=](std::int64_t j) { target[j] += from[j]; });
    }
  }
};

}  // namespace programs

namespace detail {

/// Sums over rows that a program finds while it works on each row, such as the gradient of a gain.
/// Rows are cut in blocks whose number depends on the rows alone; every block has sums of its own,
/// added up in order: the result does not depend on the number of threads. (On a device there are
/// more blocks.)
template <class Sum>
class row_blocks {
 public:
  /// `kinds` sums, 1 or 2, of `columns` numbers each.
  row_blocks(std::int64_t rows, std::int64_t columns, std::int64_t kinds)
      : rows_(rows),
        columns_(columns),
        kinds_(kinds),
        block_(std::max<std::int64_t>(fewest_rows(), (rows + most_blocks() - 1) / most_blocks())),
        count_((rows + block_ - 1) / block_),
        sums_(count_ * kinds * columns) {}

  /// program(team, row, sums of the first kind, sums of the last kind) for all rows.
  template <class Program>
  void run(const Program& program) {
    for_each_range(
        rows_, block_,
        {.scratch_bytes = host_team::scratch_bytes<Sum>(kinds_ * columns_),
         .elements_each = block_ * columns_},
        programs::row_block<Program, Sum>{program, sums_.data(), block_, columns_, kinds_});
  }

  /// to[j] += the sum of kind `kind` over all rows.
  void add_to(std::int64_t kind, std::span<Sum> to) const {
    require(static_cast<std::int64_t>(to.size()) == columns_ || shapes_only::active(),
            "row_blocks: ", static_cast<std::int64_t>(to.size()), " sums were given for ", columns_,
            " columns; give as many");
    const std::int64_t piece = device::of_this_rank() == nullptr ? 1024 : 128;
    const Sum* first = sums_.data() == nullptr ? nullptr : sums_.data() + kind * columns_;
    for_each_range(columns_, piece, {.elements_each = count_ * piece},
                   programs::add_block_sums<Sum>{to.data(), first, count_, kinds_ * columns_});
  }

 private:
  static std::int64_t fewest_rows() noexcept { return device::of_this_rank() == nullptr ? 32 : 8; }
  static std::int64_t most_blocks() noexcept {
    return device::of_this_rank() == nullptr ? 64 : 528;
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t kinds_;
  std::int64_t block_;
  std::int64_t count_;
  buffer<Sum> sums_;  // [count, kinds, columns]
};

/// Scratch for a row of `columns` numbers that a device reads once: none on the host, whose caches
/// keep it, and none for rows that are too long.
template <class W>
std::int64_t kept_row_bytes(std::int64_t columns) noexcept {
  const std::int64_t bytes = host_team::scratch_bytes<W>(columns);
  return device::of_this_rank() == nullptr || bytes > (std::int64_t{32} << 10) ? 0 : bytes;
}

}  // namespace detail

}  // namespace tenon::inline v0::kernel
