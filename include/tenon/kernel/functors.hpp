// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/tensor/view.hpp"

// The roles and functors that `fuse.hpp` composes. Each is bound to a row first (`at_row`), so that
// what depends on the row alone stands outside of the loop over columns.
namespace tenon::inline v0::kernel {

/// Where a value stands in the matrix that a pipeline runs over.
struct position {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// A user's functor: called with the value (in the wide element) and its position.
template <class F>
concept elementwise = requires(const F& f, fp32 value, position where) {
  { f(value, where) } -> std::convertible_to<fp32>;
}
|| requires(const F& f, fp64 value, position where) {
  { f(value, where) } -> std::convertible_to<fp64>;
};

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
  matrix_view<const T> from;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(from.rows == rows && from.columns == columns, "read", from.rows,
                         from.columns, rows, columns);
  }
  struct bound {
    const T* start;
    TENON_BOTH wide<T> operator()(std::int64_t column) const { return widen(start[column]); }
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {from.row(row)}; }
};
template <class T>
read(matrix_view<T>) -> read<std::remove_const_t<T>>;

/// One element for each column, the same in all rows: a bias, a gain.
template <element T>
struct per_column {
  using element_type = T;
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
  std::span<const T> from;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(detail::length_of(from) == rows || from.data() == nullptr, "per_row",
                         detail::length_of(from), columns, rows, columns);
  }
  struct bound {
    wide<T> value;
    TENON_BOTH wide<T> operator()(std::int64_t) const { return value; }
  };
  TENON_BOTH bound at_row(std::int64_t row) const {
    return {widen(from[static_cast<std::size_t>(row)])};
  }
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

// ---- sinks --------------------------------------------------------------------------------------

/// Writes the value, rounded to the element; it may be where a `read` reads.
template <element T>
struct write {
  matrix_view<T> to;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(to.rows == rows && to.columns == columns, "write", to.rows, to.columns,
                         rows, columns);
  }
  struct bound {
    T* start;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      start[column] = T(static_cast<wide<T>>(value));
      return value;
    }
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {to.row(row)}; }
};
template <class T>
write(matrix_view<T>) -> write<T>;

/// Adds the value to what is there.
template <element T>
struct accumulate {
  matrix_view<T> to;

  void fits(std::int64_t rows, std::int64_t columns) const {
    detail::require_size(to.rows == rows && to.columns == columns, "accumulate", to.rows,
                         to.columns, rows, columns);
  }
  struct bound {
    T* start;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      start[column] = T(widen(start[column]) + static_cast<wide<T>>(value));
      return value;
    }
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {to.row(row)}; }
};
template <class T>
accumulate(matrix_view<T>) -> accumulate<T>;

// ---- functors of the value alone ----------------------------------------------------------------

/// value * factor
struct scale {
  double factor = 1;
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return value * static_cast<V>(factor);
  }
};

/// GELU, see `gelu_value`.
struct gelu {
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return gelu_value(value);
  }
};

/// SiLU, see `silu_value`.
struct silu {
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return silu_value(value);
  }
};

// ---- functors of the value and a source ---------------------------------------------------------

namespace detail {
/// A functor f(value, other) whose `other` comes from a source.
template <class F, source S>
struct with_source {
  S other;

  void fits(std::int64_t rows, std::int64_t columns) const { other.fits(rows, columns); }
  struct bound {
    decltype(std::declval<const S&>().at_row(0)) from;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      return F::apply(value, static_cast<V>(from(column)));
    }
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {other.at_row(row)}; }
};

struct addition {
  template <class V>
  TENON_BOTH static V apply(V value, V other) {
    return value + other;
  }
};
struct multiplication {
  template <class V>
  TENON_BOTH static V apply(V value, V other) {
    return value * other;
  }
};
struct gelu_gradient {
  template <class V>
  TENON_BOTH static V apply(V gradient, V x) {
    return gradient * gelu_slope(x);
  }
};
struct silu_gradient {
  template <class V>
  TENON_BOTH static V apply(V gradient, V x) {
    return gradient * silu_slope(x);
  }
};
struct gated_silu {
  template <class V>
  TENON_BOTH static V apply(V gate, V other) {
    return silu_value(gate) * other;
  }
};
}  // namespace detail

/// value + source
template <source S>
struct add : detail::with_source<detail::addition, S> {};
template <source S>
add(S) -> add<S>;

/// value * source
template <source S>
struct multiply : detail::with_source<detail::multiplication, S> {};
template <source S>
multiply(S) -> multiply<S>;

/// The value is the gradient of gelu(x), the source is x: gives the gradient of x.
template <source S>
struct gelu_backward : detail::with_source<detail::gelu_gradient, S> {};
template <source S>
gelu_backward(S) -> gelu_backward<S>;

/// The value is the gradient of silu(x), the source is x: gives the gradient of x.
template <source S>
struct silu_backward : detail::with_source<detail::silu_gradient, S> {};
template <source S>
silu_backward(S) -> silu_backward<S>;

/// SwiGLU: silu(value) * source. Source: N. Shazeer, GLU variants improve transformer, 2020.
template <source S>
struct swiglu : detail::with_source<detail::gated_silu, S> {};
template <source S>
swiglu(S) -> swiglu<S>;

/// The value is the gradient of silu(gate) * up: writes the gradients of gate and of up, which may
/// be where gate and up are; the value passes.
template <source Gate, source Up, element T>
struct swiglu_backward {
  Gate gate;
  Up up;
  write<T> gate_gradient;
  write<T> up_gradient;

  void fits(std::int64_t rows, std::int64_t columns) const {
    gate.fits(rows, columns);
    up.fits(rows, columns);
    gate_gradient.fits(rows, columns);
    up_gradient.fits(rows, columns);
  }
  struct bound {
    decltype(std::declval<const Gate&>().at_row(0)) gate;
    decltype(std::declval<const Up&>().at_row(0)) up;
    typename write<T>::bound gate_gradient;
    typename write<T>::bound up_gradient;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      const V x = static_cast<V>(gate(column));
      const V other = static_cast<V>(up(column));
      const V s = sigmoid(x);
      gate_gradient(value * other * (s * (V{1} + x * (V{1} - s))), column);
      up_gradient(value * (x * s), column);
      return value;
    }
  };
  TENON_BOTH bound at_row(std::int64_t row) const {
    return {gate.at_row(row), up.at_row(row), gate_gradient.at_row(row), up_gradient.at_row(row)};
  }
};
template <source Gate, source Up, element T>
swiglu_backward(Gate, Up, write<T>, write<T>) -> swiglu_backward<Gate, Up, T>;

}  // namespace tenon::inline v0::kernel
