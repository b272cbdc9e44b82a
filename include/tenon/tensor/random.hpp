// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tenon/base/random.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

/// Calls f(local element, global index) for every element that this rank holds; the global index
/// numbers the elements of the whole tensor row-major, the same in every layout.
template <class E, class D, class P, class F>
void for_each_global_index(tensor<E, D, P>& x, F&& f) {
  if (shapes_only::active() || x.elements() == 0) return;
  constexpr std::size_t n = D::size;
  const auto& regions = x.where().regions();
  const auto& extents = x.global_shape().extents;
  std::array<std::int64_t, n> index{};
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < n; ++d) global = global * extents[d] + regions[d].begin + index[d];
    f(x.data()[i], global);
    for (std::size_t d = n; d-- > 0;) {
      if (++index[d] < regions[d].size) break;
      index[d] = 0;
    }
  }
}

/// Normal values with mean 0 and the deviation given, each a function of the stream and the global
/// index alone: all layouts get the same bits.
template <class E, class D, class P>
void fill_normal(tensor<E, D, P>& x, const random_stream& stream, double deviation) {
  for_each_global_index(x, [&](E& value, std::int64_t index) {
    value = E(static_cast<wide<E>>(stream.normal(index) * deviation));
  });
}

template <class E, class D, class P>
void fill(tensor<E, D, P>& x, double value) {
  for (E& each : x.values()) each = E(static_cast<wide<E>>(value));
}

}  // namespace tenon::inline v0
