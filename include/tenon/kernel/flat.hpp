// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/sum.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/seen_by_host.hpp"

// Kernels over flat arrays, whatever they are the values of.
namespace tenon::inline v0::kernel {

namespace detail {

/// Elements that one program of a flat kernel takes. Sums are made of one part for each such block:
/// their order depends on the length alone.
inline constexpr std::int64_t flat_block = 4096;

inline std::int64_t flat_blocks(std::int64_t n) noexcept {
  return (n + flat_block - 1) / flat_block;
}

template <class A, class B>
void require_same_length(const char* kernel, const A& a, const B& b) {
  require(a.size() == b.size() || shapes_only::active(), kernel, ": ",
          static_cast<std::int64_t>(a.size()), " and ", static_cast<std::int64_t>(b.size()),
          " elements were given; give as many");
}

template <class Program>
void for_each_block(std::size_t n, const Program& program) {
  for_each_range(static_cast<std::int64_t>(n), flat_block, {.elements_each = flat_block}, program);
}

}  // namespace detail

namespace programs {

/// A block of `scale_by`.
template <element T>
struct scale_by {
  static constexpr std::string_view name = "scale_by";
  T* values;
  wide<T> factor;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    team.apply(
        end - begin, [by = factor](wide<T>& value) { value = value * by; }, values + begin);
  }
};

/// A block of `add_scaled`.
template <element T, element From>
struct add_scaled {
  static constexpr std::string_view name = "add_scaled";
  T* to;
  wide<T> factor;
  const From* from;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    team.apply(
        end - begin,
        [by = factor](wide<T>& target, wide<From> value) {
          target = target + by * static_cast<wide<T>>(value);
        },
        to + begin, from + begin);
  }
};

/// A block of `convert`.
template <element T, element From>
struct convert {
  static constexpr std::string_view name = "convert";
  static constexpr int teams_at_once = 8;
  T* to;
  const From* from;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    team.apply(
        end - begin,
        [](wide<T>& target, wide<From> value) { target = static_cast<wide<T>>(value); },
        only_written<T>{to + begin}, from + begin);
  }
};

/// The sum of the squares of a block, in fp64.
template <element T>
struct squares {
  static constexpr std::string_view name = "sum_of_squares";
  const T* values;
  double* sums;  ///< of the blocks
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    const double sum = team.template sum_of<double>(
        end - begin,
        [](wide<T> value) { return static_cast<double>(value) * static_cast<double>(value); },
        values + begin);
    team.once([&] { sums[begin / detail::flat_block] = sum; });
  }
};

/// 0 for a block of numbers, else NaN.
template <element T>
struct not_finite {
  static constexpr std::string_view name = "all_finite";
  const T* values;
  double* sums;  ///< of the blocks
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    // 0 * value is 0 for a number, and NaN for what is none.
    const auto sum = team.template sum_of<wide<T>>(
        end - begin, [](wide<T> value) { return value * wide<T>{0}; }, values + begin);
    team.once([&] { sums[begin / detail::flat_block] = static_cast<double>(sum); });
  }
};

}  // namespace programs

namespace detail {

/// The sum of what `Program` gives for the blocks of n elements. Waits for a device.
template <template <class> class Program, class T>
double sum_of_blocks(std::span<const T> values) {
  const std::int64_t blocks = flat_blocks(static_cast<std::int64_t>(values.size()));
  buffer<double> parts(blocks);
  for_each_block(values.size(), Program<T>{values.data(), parts.data()});
  buffer<double> total(1);
  sum_into(total.data(), std::span<const double>(parts.span()));
  const seen_by_host<double> sum(total.span());
  return sum.values().empty() ? 0 : sum.values()[0];
}

}  // namespace detail

/// The sum of the squares, accumulated in fp64; its order depends on the length alone.
template <class T>
double sum_of_squares(std::span<T> values) {
  using type = std::remove_const_t<T>;
  static_assert(element<type>,
                "sum_of_squares: no floating-point element; give fp64, fp32 or bf16");
  return detail::sum_of_blocks<programs::squares>(std::span<const type>(values));
}

/// Whether no value is infinite or NaN.
template <class T>
bool all_finite(std::span<T> values) {
  using type = std::remove_const_t<T>;
  static_assert(element<type>, "all_finite: no floating-point element; give fp64, fp32 or bf16");
  return detail::sum_of_blocks<programs::not_finite>(std::span<const type>(values)) == 0;
}

/// values *= factor
template <element T>
void scale_by(std::span<T> values, double factor) {
  detail::for_each_block(values.size(),
                         programs::scale_by<T>{values.data(), static_cast<wide<T>>(factor)});
}

/// to += factor * from
template <element T, class From>
void add_scaled(std::span<T> to, double factor, std::span<From> from) {
  using type = std::remove_const_t<From>;
  static_assert(element<type>, "add_scaled: no floating-point element; give fp64, fp32 or bf16");
  detail::require_same_length("add_scaled", to, from);
  detail::for_each_block(to.size(), programs::add_scaled<T, type>{
                                        to.data(), static_cast<wide<T>>(factor), from.data()});
}

/// to = from, converted where the elements differ.
template <element T, class From>
void convert(std::span<T> to, std::span<From> from) {
  using type = std::remove_const_t<From>;
  static_assert(element<type>, "convert: no floating-point element; give fp64, fp32 or bf16");
  detail::require_same_length("convert", to, from);
  detail::for_each_block(to.size(), programs::convert<T, type>{to.data(), from.data()});
}

}  // namespace tenon::inline v0::kernel
