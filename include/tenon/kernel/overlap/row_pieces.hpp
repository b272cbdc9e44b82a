// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tenon/memory/meter.hpp"
#include "tenon/placement/partition.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::kernel {

/// The rows of a matrix as [outer, cut, inner] indices of which the middle one is cut in pieces,
/// one a rank: the rows of [batch, sequence] tokens whose sequence is cut. The whole of a piece is
/// a matrix too, [outer, size of the piece, inner] rows.
/// Thread-safety: a value.
struct row_pieces {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  partition cut;

  int count() const noexcept { return cut.parts(); }
  std::int64_t rows_of(int piece) const { return outer * cut.of(piece).size * inner; }
  std::int64_t all_rows() const { return outer * cut.extent() * inner; }
  std::int64_t most_rows() const {
    std::int64_t most = 0;
    for (int p = 0; p < count(); ++p) most = std::max(most, rows_of(p));
    return most;
  }
  /// True when a piece's rows follow one another in the whole.
  bool follow_one_another() const noexcept { return outer == 1; }
  /// The rows of such a piece, in the whole.
  template <class T>
  matrix_view<T> of(matrix_view<T> whole, int piece) const {
    return whole.rows_from(cut.of(piece).begin * inner, rows_of(piece));
  }

  /// whole's rows of the piece = from.
  template <class T>
  void put(matrix_view<T> whole, int piece, matrix_view<const std::type_identity_t<T>> from) const {
    for_each_run(piece, [&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t rows) {
      copy_rows(whole.rows_from(in_whole, rows), from.rows_from(in_piece, rows));
    });
  }
  /// to = whole's rows of the piece.
  template <class T>
  void take(matrix_view<T> to, matrix_view<const std::type_identity_t<T>> whole, int piece) const {
    for_each_run(piece, [&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t rows) {
      copy_rows(to.rows_from(in_piece, rows), whole.rows_from(in_whole, rows));
    });
  }

 private:
  template <class F>
  void for_each_run(int piece, F&& f) const {
    if (shapes_only::active()) return;
    const region part = cut.of(piece);
    for (std::int64_t o = 0; o < outer; ++o) {
      f((o * cut.extent() + part.begin) * inner, o * part.size * inner, part.size * inner);
    }
  }
  template <class T>
  static void copy_rows(matrix_view<T> to, matrix_view<const T> from) {
    if (to.data == from.data || from.size() == 0) return;
    const auto row = static_cast<std::size_t>(from.columns) * sizeof(T);
    if (to.stride == to.columns && from.stride == from.columns) {
      std::memcpy(static_cast<void*>(to.data), from.data,
                  row * static_cast<std::size_t>(from.rows));
      return;
    }
    for (std::int64_t i = 0; i < from.rows; ++i) {
      std::memcpy(static_cast<void*>(to.row(i)), from.row(i), row);
    }
  }
};

}  // namespace tenon::inline v0::kernel
