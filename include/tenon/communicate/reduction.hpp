// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/communicate/sum_order.hpp"

namespace tenon::inline v0 {

/// How the values of the ranks become one. `log_sum_exp` merges pairs (maximum, sum of exponentials
/// over it) that stand next to each other, of fp32 or fp64: an even number of elements, and pieces
/// that never cut a pair. A NaN in `maximum` or `minimum` may win or lose.
enum class reduction_kind : std::uint8_t { sum, maximum, minimum, log_sum_exp };

constexpr std::string_view name_of(reduction_kind reduction) noexcept {
  switch (reduction) {
    case reduction_kind::sum:
      return "sum";
    case reduction_kind::maximum:
      return "maximum";
    case reduction_kind::minimum:
      return "minimum";
    case reduction_kind::log_sum_exp:
      return "log_sum_exp";
  }
  return "?";
}

/// How many neighbouring elements are merged as one.
constexpr std::int64_t unit_of(reduction_kind reduction) noexcept {
  return reduction == reduction_kind::log_sum_exp ? 2 : 1;
}

/// The elements of piece `piece` when `count` elements are cut into `pieces` balanced pieces that
/// never cut a unit; the first pieces get one unit more.
constexpr std::int64_t balanced_piece(std::int64_t count, int pieces, int piece,
                                      std::int64_t unit = 1) noexcept {
  const std::int64_t units = count / unit;
  return (units / pieces + (piece < units % pieces ? 1 : 0)) * unit;
}

namespace detail {

/// Sums are added in this type and rounded once; integers wrap.
template <class T>
using accumulator =
    std::conditional_t<std::is_integral_v<T>, std::int64_t,
                       std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class A>
A added(A a, A b) noexcept {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

/// to[i] = sources[0][i] (+) sources[1][i] (+) ..., in this order. `to` may be one of the sources.
template <class T>
void merge_values(reduction_kind reduction, std::span<const void* const> sources,
                  std::int64_t count, T* to) {
  using wide_value = accumulator<T>;
  constexpr std::int64_t block = 512;  // stays in the nearest cache
  wide_value sum[block];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t size = std::min(block, count - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    for (std::int64_t i = 0; i < size; ++i) sum[i] = static_cast<wide_value>(first[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      const T* next = static_cast<const T*>(sources[s]) + begin;
      if (reduction == reduction_kind::sum) {
        for (std::int64_t i = 0; i < size; ++i) {
          sum[i] = added(sum[i], static_cast<wide_value>(next[i]));
        }
      } else if (reduction == reduction_kind::maximum) {
        for (std::int64_t i = 0; i < size; ++i) {
          sum[i] = std::max(sum[i], static_cast<wide_value>(next[i]));
        }
      } else {
        for (std::int64_t i = 0; i < size; ++i) {
          sum[i] = std::min(sum[i], static_cast<wide_value>(next[i]));
        }
      }
    }
    for (std::int64_t i = 0; i < size; ++i) to[begin + i] = static_cast<T>(sum[i]);
  }
}

/// Pairs (m, s) stand for s * exp(m): the merge of (m, s) and (n, t) is (k, s e^(m-k) + t e^(n-k))
/// with k = max(m, n). An empty rank gives (-infinity, 0) and changes nothing.
template <class T>
void merge_pairs(std::span<const void* const> sources, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i + 1 < count; i += 2) {
    T largest = static_cast<const T*>(sources[0])[i];
    for (const void* source : sources) {
      largest = std::max(largest, static_cast<const T*>(source)[i]);
    }
    T sum = 0;
    for (const void* source : sources) {
      const T* pair = static_cast<const T*>(source) + i;
      if (pair[1] != T{0}) sum += pair[1] * std::exp(pair[0] - largest);
    }
    to[i] = largest;
    to[i + 1] = sum;
  }
}

inline void require_mergeable(element_kind element, reduction_kind reduction) {
  require(element != element_kind::byte, "reduction: the ", name_of(reduction),
          " of bytes was asked for; bytes only travel, reduce int32, int64, bf16, fp32 or fp64");
  require(reduction != reduction_kind::log_sum_exp || element == element_kind::fp32 ||
              element == element_kind::fp64,
          "reduction: log_sum_exp of ", name_of(element),
          " was asked for; its pairs are fp32 or fp64");
}

/// Merges `count` elements of each source, in the order of the sources, into `to`.
inline void merge_in_order(element_kind element, reduction_kind reduction,
                           std::span<const void* const> sources, std::int64_t count, void* to) {
  require_mergeable(element, reduction);
  const bool pairs = reduction == reduction_kind::log_sum_exp;
  switch (element) {
    case element_kind::fp64:
      if (pairs) return merge_pairs(sources, count, static_cast<double*>(to));
      return merge_values(reduction, sources, count, static_cast<double*>(to));
    case element_kind::fp32:
      if (pairs) return merge_pairs(sources, count, static_cast<float*>(to));
      return merge_values(reduction, sources, count, static_cast<float*>(to));
    case element_kind::bf16:
      return merge_values(reduction, sources, count, static_cast<bf16*>(to));
    case element_kind::int64:
      return merge_values(reduction, sources, count, static_cast<std::int64_t*>(to));
    case element_kind::int32:
      return merge_values(reduction, sources, count, static_cast<std::int32_t*>(to));
    case element_kind::byte:
      return;
  }
}

}  // namespace detail
}  // namespace tenon::inline v0
