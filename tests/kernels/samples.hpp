// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tenon/base/element.hpp"
#include "tenon/base/random.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/tensor/view.hpp"

// What the tests of the kernels share: matrices of sample numbers, comparison, finite differences.
namespace samples {

using namespace tenon;

using all_elements = std::tuple<fp64, fp32, bf16>;

/// Half a unit in the last place of 1.
template <class T>
inline constexpr double rounding = std::is_same_v<T, fp64>   ? 0x1p-53
                                   : std::is_same_v<T, fp32> ? 0x1p-24
                                                             : 0x1p-9;

/// What a kernel may be off by, relative to the largest value: a few roundings of the stored
/// element and some dozen of the wide one.
template <class T>
inline constexpr double bar = 2 * rounding<T> + 100 * rounding<wide<T>>;

/// A matrix whose rows stand apart; what is between them must stay as it was.
template <class T>
struct matrix {
  static constexpr std::int64_t gap = 3;

  matrix() = default;
  matrix(std::int64_t rows, std::int64_t columns)
      : rows(rows),
        columns(columns),
        storage(static_cast<std::size_t>(rows * (columns + gap)), T(mark)) {
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(view().row(i), columns, T(0.0F));
  }
  /// Numbers of [-size, size], by name; the same for all elements up to rounding.
  matrix(std::int64_t rows, std::int64_t columns, const char* name, double size = 1)
      : matrix(rows, columns) {
    const random_stream stream(1, name);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        // Rounded to bf16, so that all elements start from the same number.
        const double u = size * (2 * double{stream.uniform(i * columns + j)} - 1);
        view()(i, j) = T(static_cast<float>(bf16(static_cast<float>(u))));
      }
    }
  }

  matrix_view<T> view() { return {storage.data(), rows, columns, columns + gap}; }
  matrix_view<const T> view() const { return {storage.data(), rows, columns, columns + gap}; }
  T& operator()(std::int64_t i, std::int64_t j) { return view()(i, j); }
  double at(std::int64_t i, std::int64_t j) const { return static_cast<double>(view()(i, j)); }

  bool gaps_untouched() const {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = columns; j < columns + gap; ++j) {
        if (static_cast<double>(view().row(i)[j]) != static_cast<double>(mark)) return false;
      }
    }
    return true;
  }
  bool same_as(const matrix& other) const {
    if (rows != other.rows || columns != other.columns) return false;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        if (!(at(i, j) == other.at(i, j))) return false;
      }
    }
    return true;
  }

  std::int64_t rows = 0;
  std::int64_t columns = 0;

 private:
  static constexpr float mark = 77.0F;
  std::vector<T> storage;
};

template <class To, class From>
matrix<To> converted(const matrix<From>& from) {
  matrix<To> to(from.rows, from.columns);
  for (std::int64_t i = 0; i < from.rows; ++i) {
    for (std::int64_t j = 0; j < from.columns; ++j) {
      to(i, j) = To(static_cast<wide<To>>(from.at(i, j)));
    }
  }
  return to;
}

template <class T>
std::vector<T> numbers(std::int64_t n, const char* name, double size = 1) {
  const matrix<T> drawn(1, n, name, size);
  std::vector<T> result(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) result[static_cast<std::size_t>(i)] = drawn.view()(0, i);
  return result;
}

/// The largest difference over the largest size, of anything with at(i, j).
template <class A, class B>
double difference(const matrix<A>& a, const matrix<B>& b) {
  BOOST_REQUIRE(a.rows == b.rows && a.columns == b.columns);
  double most = 0;
  double size = 1e-30;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const double apart = std::abs(a.at(i, j) - b.at(i, j));
      if (!(apart <= most)) most = apart;  // a NaN stays
      size = std::max(size, std::abs(b.at(i, j)));
    }
  }
  return most / size;
}
template <class A, class B>
double difference(const std::vector<A>& a, const std::vector<B>& b) {
  BOOST_REQUIRE(a.size() == b.size());
  double most = 0;
  double size = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(apart <= most)) most = apart;
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return most / size;
}

/// d(sum of weights * f) / dx by central differences, for each entry of x: `value` computes the
/// weighted sum from what x holds.
inline matrix<fp64> slopes(matrix<fp64>& x, const std::function<double()>& value,
                           double step = 1e-5) {
  matrix<fp64> result(x.rows, x.columns);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) {
      const double before = x(i, j);
      x(i, j) = before + step;
      const double above = value();
      x(i, j) = before - step;
      const double below = value();
      x(i, j) = before;
      result(i, j) = (above - below) / (2 * step);
    }
  }
  return result;
}
/// Central differences with steps of 1e-5 are right to about this.
inline constexpr double slope_bar = 1e-8;

inline double weighted(const matrix<fp64>& a, const matrix<fp64>& weights) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) sum += a.at(i, j) * weights.at(i, j);
  }
  return sum;
}

/// While it lives, kernels of this thread use so many threads.
struct with_threads {
  explicit with_threads(int count) : before(kernel::threads()) { kernel::set_threads(count); }
  ~with_threads() { kernel::set_threads(before); }
  with_threads(const with_threads&) = delete;
  with_threads& operator=(const with_threads&) = delete;
  int before;
};

}  // namespace samples
