// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// A matrix somewhere in memory, not owned: `rows` rows of `columns` elements, element (i, j) at
/// `data[i * stride + j]`. In a dry run for shapes `data` is null while the sizes are real.
/// Thread-safety: a value; what it points to is the owner's matter.
template <class T>
struct matrix_view {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements between the starts of two rows

  constexpr T* row(std::int64_t i) const noexcept { return data + i * stride; }
  constexpr T& operator()(std::int64_t i, std::int64_t j) const noexcept { return row(i)[j]; }
  constexpr std::int64_t size() const noexcept { return rows * columns; }
  constexpr bool contiguous() const noexcept { return stride == columns || rows < 2; }

  /// Rows begin .. begin+count-1.
  matrix_view rows_from(std::int64_t begin, std::int64_t count) const {
    require(begin >= 0 && count >= 0 && begin + count <= rows, "matrix_view: rows ", begin, " to ",
            begin + count, " were asked for and there are ", rows, "; ask for a part of them");
    return {data == nullptr ? nullptr : data + begin * stride, count, columns, stride};
  }
  /// Columns begin .. begin+count-1, of all rows.
  matrix_view columns_from(std::int64_t begin, std::int64_t count) const {
    require(begin >= 0 && count >= 0 && begin + count <= columns, "matrix_view: columns ", begin,
            " to ", begin + count, " were asked for and there are ", columns,
            "; ask for a part of them");
    return {data == nullptr ? nullptr : data + begin, rows, count, stride};
  }

  /// A view that may write serves where one that only reads is asked for.
  template <class Read>
  requires(std::is_same_v<Read, const T> && !std::is_const_v<T>) constexpr
  operator matrix_view<Read>() const noexcept {  // NOLINT: only adds const
    return {data, rows, columns, stride};
  }
};

/// The view of `rows` x `columns` elements that follow one another.
template <class T>
constexpr matrix_view<T> view_of(T* data, std::int64_t rows, std::int64_t columns) noexcept {
  return {data, rows, columns, columns};
}

}  // namespace tenon::inline v0
