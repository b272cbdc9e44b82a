// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "../kernels/samples.hpp"
#include "tenon/kernel/team/emulated_launch.hpp"
#include "tenon/memory/buffer.hpp"

// What the tests of emulated devices share: values of the host, copied to the device and back.
namespace both {

using namespace tenon;

/// While it lives, this thread computes on an emulated device.
struct on_emulated {
  explicit on_emulated(kernel::lane_order order = kernel::lane_order::forward) : now(&device) {
    kernel::emulation::of_this_thread().order = order;
  }
  ~on_emulated() { kernel::emulation::of_this_thread().order = kernel::lane_order::forward; }
  on_emulated(const on_emulated&) = delete;
  on_emulated& operator=(const on_emulated&) = delete;

  emulated_device device;
  computes_on now;
};

inline constexpr kernel::lane_order all_orders[] = {
    kernel::lane_order::forward, kernel::lane_order::backward, kernel::lane_order::alternating};

/// Numbers on the device.
template <class T>
struct numbers {
  numbers() = default;
  explicit numbers(const std::vector<T>& from) : memory(static_cast<std::int64_t>(from.size())) {
    copy_in(memory.span(), std::span<const T>(from));
  }
  explicit numbers(std::int64_t size) : memory(size) {}

  std::span<T> span() { return memory.span(); }
  std::vector<T> back() const {
    std::vector<T> values(static_cast<std::size_t>(memory.size()));
    copy_out(std::span<T>(values), memory.span());
    return values;
  }

  buffer<T> memory;
};

/// A matrix on the device; `gap` elements stand between its rows, so that packs of 16 bytes begin
/// where they may not (an odd gap) or where they may (none).
template <class T>
struct matrix {
  explicit matrix(const samples::matrix<T>& from, std::int64_t gap = 0)
      : rows(from.rows), columns(from.columns), stride(from.columns + gap), memory(rows * stride) {
    std::vector<T> values(static_cast<std::size_t>(rows * stride), T(0.0F));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        values[static_cast<std::size_t>(i * stride + j)] = from.view()(i, j);
      }
    }
    copy_in(memory.span(), std::span<const T>(values));
  }

  matrix_view<T> view() { return {memory.data(), rows, columns, stride}; }
  samples::matrix<T> back() const {
    std::vector<T> values(static_cast<std::size_t>(rows * stride));
    copy_out(std::span<T>(values), memory.span());
    samples::matrix<T> to(rows, columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        to(i, j) = values[static_cast<std::size_t>(i * stride + j)];
      }
    }
    return to;
  }

  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  buffer<T> memory;
};

/// The norm of the difference over the norm of what is right: the bars of kernels are for this.
template <class T>
double apart(const std::vector<T>& a, const std::vector<T>& right) {
  BOOST_REQUIRE(a.size() == right.size());
  double difference = 0;
  double norm = 1e-60;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto r = static_cast<double>(right[i]);
    if (std::isinf(r) && static_cast<double>(a[i]) == r) continue;
    difference += (static_cast<double>(a[i]) - r) * (static_cast<double>(a[i]) - r);
    norm += r * r;
  }
  return std::sqrt(difference / norm);
}
template <class T>
double apart(const samples::matrix<T>& a, const samples::matrix<T>& right) {
  std::vector<double> x;
  std::vector<double> y;
  for (std::int64_t i = 0; i < right.rows; ++i) {
    for (std::int64_t j = 0; j < right.columns; ++j) {
      x.push_back(a.at(i, j));
      y.push_back(right.at(i, j));
    }
  }
  return apart(x, y);
}

/// Of a kernel's results against the host's, in relative norm.
template <class T>
inline constexpr double bar = std::is_same_v<T, fp64>   ? 1e-13
                              : std::is_same_v<T, fp32> ? 1e-5
                                                        : 1e-2;

}  // namespace both
