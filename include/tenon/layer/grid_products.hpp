// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/communicate/communicator.hpp"
#include "tenon/communicate/rank_counts.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0::detail {

/// A block of a matrix from each rank of a line in turn, for all of them.
/// Thread-safety: none; it belongs to one rank's thread.
template <element E>
class passed_block {
 public:
  /// `most` elements has the largest block.
  passed_block(communicator& line, matrix_view<const E> own, std::int64_t most)
      : line_(&line), own_(own), room_(line.size() == 1 ? 0 : most) {}

  /// Collective over the line. The block of rank i, until the next call.
  matrix_view<const E> from(int i, std::int64_t rows, std::int64_t columns, std::string_view name,
                            call_site site) {
    const bool mine = i == line_->rank();
    if (line_->size() == 1) return own_;
    // The root's memory is read only.
    line_->call({.call = collective::broadcast,
                 .element = kind_of<E>,
                 .to = mine ? const_cast<E*>(own_.data) : room_.data(),
                 .count = rows * columns,
                 .peer = i},
                {.tensor = name}, site);
    return mine ? own_ : view_of<const E>(room_.data(), rows, columns);
  }

 private:
  communicator* line_;
  matrix_view<const E> own_;
  buffer<E> room_;
};

/// Terms of a block of a matrix from each rank of a line, summed on the rank that has the block.
/// Thread-safety: none; it belongs to one rank's thread.
template <element E>
class summed_block {
 public:
  summed_block(communicator& line, std::int64_t most) : line_(&line), terms_(most) {}

  /// Where this rank's terms of the next block go.
  matrix_view<E> terms(std::int64_t rows, std::int64_t columns) {
    return view_of(terms_.data(), rows, columns);
  }
  /// Collective over the line: sums the terms on rank i, into `to` there.
  void sum_to(int i, std::int64_t elements, E* to, std::string_view name, call_site site) {
    rank_counts counts(line_->size());
    for (int r = 0; r < line_->size(); ++r) counts[r] = r == i ? elements : 0;
    line_->call({.call = collective::reduce_scatter,
                 .element = kind_of<E>,
                 .from = terms_.data(),
                 .to = to,
                 .from_counts = counts},
                {.tensor = name}, site);
  }
  /// The same in the place of the terms.
  void sum_in_place(int i, std::int64_t elements, std::string_view name, call_site site) {
    const bool behind = line_->rank() > i && terms_.data() != nullptr;
    sum_to(i, elements, terms_.data() + (behind ? elements : 0), name, site);
  }

 private:
  communicator* line_;
  buffer<E> terms_;
};

/// One of the products with an operand in common.
template <class Result, class Operand>
struct grid_factor {
  Result first;
  Operand second;
};

/// The three products of matrices in blocks on a grid of Q x Q ranks, closed under
/// differentiation. Rank (r, c) has block (r, c) of each. In step i blocks of one row and of one
/// column of the grid travel, so that no rank ever holds an operand as a whole:
///
///   ab    C(r,c)  = sum over i of A(r,i) B(i,c)      A(.,i) goes along rows, B(i,.) along columns
///   ab_t  C(r,i)  = sum over c of A(r,c) B(i,c)^T    B(i,.) goes along columns, sums along rows
///   at_b  C(i,c) += sum over r of A(r,i)^T B(r,c)    A(.,i) goes along rows, sums along columns
///
/// Of a matrix M in blocks, the ranks together send (Q - 1) |M| elements, whichever way it goes.
/// Sums over ranks are in the element of the result, the sums inside of `ab` in the wide one.
/// Source: R. van de Geijn, J. Watts, SUMMA: scalable universal matrix multiplication algorithm,
/// 1997; Q. Xu and others, Optimus, 2021.
/// Thread-safety: none; it belongs to one rank's thread.
class grid_products {
 public:
  /// `across` are the ranks of a row of the grid, `down` those of a column; `pieces` are the sizes
  /// of what i counts: columns of A and rows of B (ab), columns of C and rows of B (ab_t), columns
  /// of A and rows of C (at_b).
  grid_products(communicator& across, communicator& down, std::vector<std::int64_t> pieces,
                std::string_view name, call_site site)
      : across_(&across), down_(&down), pieces_(std::move(pieces)), name_(name), site_(site) {
    most_ = *std::max_element(pieces_.begin(), pieces_.end());
  }

  template <element E>
  void ab(matrix_view<const E> a,
          const std::vector<grid_factor<matrix_view<E>, matrix_view<const E>>>& all) const {
    using W = wide<E>;
    passed_block<E> a_blocks(*across_, a, a.rows * most_);
    std::vector<passed_block<E>> b_blocks;
    std::vector<buffer<W>> sums;  // where C is narrower
    for (const auto& [c, b] : all) {
      b_blocks.emplace_back(*down_, b, most_ * b.columns);
      sums.emplace_back(rounds<E> ? c.rows * c.columns : 0);
    }
    for (int i = 0; i < across_->size(); ++i) {
      const std::int64_t piece = pieces_[static_cast<std::size_t>(i)];
      const auto left = a_blocks.from(i, a.rows, piece, name_, site_);
      for (std::size_t p = 0; p < all.size(); ++p) {
        const auto& c = all[p].first;
        const auto right = b_blocks[p].from(i, piece, c.columns, name_, site_);
        const auto how = i == 0 ? kernel::output::overwrite : kernel::output::accumulate;
        if constexpr (rounds<E>) {
          multiply(view_of(sums[p].data(), c.rows, c.columns), left, right, how);
        } else {
          multiply(c, left, right, how);
        }
      }
    }
    if constexpr (rounds<E>) {
      for (std::size_t p = 0; p < all.size(); ++p) {
        const auto& c = all[p].first;
        kernel::run(kernel::read{view_of<const W>(sums[p].data(), c.rows, c.columns)} |
                    kernel::write{c});
      }
    }
  }

  /// The sum of several such products.
  template <element E>
  void ab_t(matrix_view<E> c,
            const std::vector<grid_factor<matrix_view<const E>, matrix_view<const E>>>& all) const {
    const bool alone = across_->size() == 1;
    std::vector<passed_block<E>> b_blocks;
    for (const auto& [a, b] : all) b_blocks.emplace_back(*down_, b, most_ * b.columns);
    summed_block<E> sums(*across_, alone ? 0 : c.rows * most_);
    for (int i = 0; i < across_->size(); ++i) {
      const std::int64_t piece = pieces_[static_cast<std::size_t>(i)];
      const auto to = alone ? c : sums.terms(c.rows, piece);
      for (std::size_t p = 0; p < all.size(); ++p) {
        const auto& a = all[p].first;
        kernel::product(to, a, kernel::orientation::as_stored,
                        b_blocks[p].from(i, piece, a.columns, name_, site_),
                        kernel::orientation::transposed,
                        p == 0 ? kernel::output::overwrite : kernel::output::accumulate);
      }
      if (!alone) sums.sum_to(i, c.rows * piece, c.data, name_, site_);
    }
  }

  template <element E>
  void at_b(matrix_view<const E> a,
            const std::vector<grid_factor<matrix_view<wide<E>>, matrix_view<const E>>>& all) const {
    using W = wide<E>;
    const bool alone = down_->size() == 1;
    passed_block<E> a_blocks(*across_, a, a.rows * most_);
    std::int64_t widest = 0;
    for (const auto& [c, b] : all) widest = std::max(widest, c.columns);
    summed_block<W> sums(*down_, alone ? 0 : most_ * widest);
    for (int i = 0; i < down_->size(); ++i) {
      const std::int64_t piece = pieces_[static_cast<std::size_t>(i)];
      const auto left = a_blocks.from(i, a.rows, piece, name_, site_);
      for (const auto& [c, b] : all) {
        const auto to = alone ? c : sums.terms(piece, c.columns);
        kernel::product(to, left, kernel::orientation::transposed, b,
                        kernel::orientation::as_stored,
                        alone ? kernel::output::accumulate : kernel::output::overwrite);
        if (alone) continue;
        sums.sum_in_place(i, piece * c.columns, name_, site_);
        if (i == down_->rank()) add(c, sums.terms(piece, c.columns));
      }
    }
  }

  template <class W>
  static void add(matrix_view<W> to, matrix_view<W> terms) {
    kernel::run(kernel::read{to} | kernel::add{kernel::read{terms}} | kernel::write{to});
  }

 private:
  template <class E>
  static constexpr bool rounds = !std::is_same_v<E, wide<E>>;

  template <class C, class E>
  static void multiply(matrix_view<C> c, matrix_view<const E> a, matrix_view<const E> b,
                       kernel::output how) {
    kernel::product(c, a, kernel::orientation::as_stored, b, kernel::orientation::as_stored, how);
  }

  communicator* across_;
  communicator* down_;
  std::vector<std::int64_t> pieces_;
  std::int64_t most_ = 0;
  std::string_view name_;
  call_site site_;
};

}  // namespace tenon::inline v0::detail
