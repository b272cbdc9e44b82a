// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/kernel/team/arrays.hpp"
#include "tenon/tensor/view.hpp"

// What a pipeline of `fuse.hpp` reads from and writes to. Each is bound to a row first (`at_row`),
// so that what depends on the row alone stands outside of the loop over columns. A device takes
// what is bound in packs, where `in_packs` says that it lies at a multiple of 16 bytes:
//
//   packed<n> p(bound, column)    loads n elements from the column on
//   p(value, i)                   the element i of them
//   p.flush()                     stores
namespace tenon::inline v0::kernel {

namespace detail {
inline void require_size(bool holds, const char* role, std::int64_t got_rows,
                         std::int64_t got_columns, std::int64_t rows, std::int64_t columns) {
  require(holds, role, ": ", got_rows, " x ", got_columns, " was given in a pipeline over ", rows,
          " x ", columns, "; give the same sizes");
}
template <class T>
std::int64_t length_of(std::span<T> values) noexcept {
  return static_cast<std::int64_t>(values.size());
}
}  // namespace detail

// ---- sources ------------------------------------------------------------------------------------

/// The elements of a matrix [rows, columns].
template <element T>
struct read {
  using element_type = T;
  static constexpr std::string_view name = "read";
  matrix_view<const T> from;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(from.rows == rows && from.columns == columns, "read", from.rows,
                         from.columns, rows, columns);
  }
  struct bound {
    static constexpr int pack_size = detail::pack_size<T>;
    const T* start;
    TENON_BOTH wide<T> operator()(std::int64_t column) const { return widen(start[column]); }
    TENON_BOTH bool in_packs() const { return detail::starts_at_sixteen(start); }

    template <int Count>
    struct packed {
      detail::pack<T, Count> all;
      TENON_BOTH packed(const bound& from, std::int64_t column) { all.load(from.start + column); }
      TENON_BOTH wide<T> operator()(int i) const { return all.values[i]; }
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {from.row(row)}; }
};
template <class T>
read(matrix_view<T>) -> read<std::remove_const_t<T>>;

/// One element for each column, the same in all rows: a bias, a gain.
template <element T>
struct per_column {
  using element_type = T;
  static constexpr std::string_view name = "per_column";
  std::span<const T> from;

  void fits(std::int64_t rows, std::int64_t columns) const {
    // In a dry run for shapes spans are empty.
    detail::require_size(detail::length_of(from) == columns || from.data() == nullptr, "per_column",
                         rows, detail::length_of(from), rows, columns);
  }
  TENON_BOTH typename read<T>::bound at_row(std::int64_t) const { return {from.data()}; }
};
template <class T, std::size_t N>
per_column(std::span<T, N>) -> per_column<std::remove_const_t<T>>;

/// One element for each row, the same in all columns.
template <element T>
struct per_row {
  using element_type = T;
  static constexpr std::string_view name = "per_row";
  std::span<const T> from;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(detail::length_of(from) == rows || from.data() == nullptr, "per_row",
                         detail::length_of(from), columns, rows, columns);
  }
  struct bound {
    static constexpr int pack_size = 1;
    wide<T> value;
    TENON_BOTH wide<T> operator()(std::int64_t) const { return value; }
    TENON_BOTH bool in_packs() const { return true; }

    template <int Count>
    struct packed {
      wide<T> value;
      TENON_BOTH packed(const bound& from, std::int64_t) : value(from.value) {}
      TENON_BOTH wide<T> operator()(int) const { return value; }
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {widen(from.data()[row])}; }
};
template <class T, std::size_t N>
per_row(std::span<T, N>) -> per_row<std::remove_const_t<T>>;

/// Something that a pipeline may read from.
template <class S>
concept source = requires(const S& s, std::int64_t i) {
  typename S::element_type;
  { s.at_row(i)(i) } -> std::convertible_to<double>;
  s.fits(i, i);
};

namespace detail {
template <source S>
using bound_source = decltype(std::declval<const S&>().at_row(0));

/// The elements of a pack that has whole accesses of all arrays.
template <class... Bounds>
inline constexpr int common_pack_size = std::max({1, Bounds::pack_size...});
}  // namespace detail

// ---- sinks --------------------------------------------------------------------------------------

/// Writes the value, rounded to the element; it may be where a `read` reads.
template <element T>
struct write {
  static constexpr std::string_view name = "write";
  matrix_view<T> to;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(to.rows == rows && to.columns == columns, "write", to.rows, to.columns,
                         rows, columns);
  }
  struct bound {
    static constexpr int pack_size = detail::pack_size<T>;
    T* start;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      start[column] = T(static_cast<wide<T>>(value));
      return value;
    }
    TENON_BOTH bool in_packs() const { return detail::starts_at_sixteen(start); }

    template <int Count>
    struct packed {
      T* to;
      detail::pack<T, Count> all;
      TENON_BOTH packed(const bound& into, std::int64_t column) : to(into.start + column) {}
      template <class V>
      TENON_BOTH V operator()(V value, int i) {
        all.values[i] = static_cast<wide<T>>(value);
        return value;
      }
      TENON_BOTH void flush() const { all.store(to); }
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {to.row(row)}; }
};
template <class T>
write(matrix_view<T>) -> write<T>;

/// Adds the value to what is there.
template <element T>
struct accumulate {
  static constexpr std::string_view name = "accumulate";
  matrix_view<T> to;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(to.rows == rows && to.columns == columns, "accumulate", to.rows,
                         to.columns, rows, columns);
  }
  struct bound {
    static constexpr int pack_size = detail::pack_size<T>;
    T* start;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      start[column] = T(widen(start[column]) + static_cast<wide<T>>(value));
      return value;
    }
    TENON_BOTH bool in_packs() const { return detail::starts_at_sixteen(start); }

    template <int Count>
    struct packed {
      T* to;
      detail::pack<T, Count> all;
      TENON_BOTH packed(const bound& into, std::int64_t column) : to(into.start + column) {
        all.load(to);
      }
      template <class V>
      TENON_BOTH V operator()(V value, int i) {
        all.values[i] += static_cast<wide<T>>(value);
        return value;
      }
      TENON_BOTH void flush() const { all.store(to); }
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {to.row(row)}; }
};
template <class T>
accumulate(matrix_view<T>) -> accumulate<T>;

}  // namespace tenon::inline v0::kernel
