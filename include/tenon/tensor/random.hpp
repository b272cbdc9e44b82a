// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tenon/base/random.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/meter.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

namespace detail {

// The same for a box of an array; made once for arrays of equal rank, whatever their dims are.
template <class E, std::size_t N, class F>
void for_each_index_in_box(E* values, const std::array<region, N>& box,
                           const std::array<std::int64_t, N>& extents, F&& f) {
  std::int64_t count = 1;
  for (const region& r : box) count *= r.size;
  std::array<std::int64_t, N> index{};
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t global = 0;
    for (std::size_t d = 0; d < N; ++d) global = global * extents[d] + box[d].begin + index[d];
    f(values[i], global);
    for (std::size_t d = N; d-- > 0;) {
      if (++index[d] < box[d].size) break;
      index[d] = 0;
    }
  }
}
template <class E, std::size_t N>
void fill_box_with_normal(E* values, const std::array<region, N>& box,
                          const std::array<std::int64_t, N>& extents, const random_stream& stream,
                          double deviation) {
  for_each_index_in_box(values, box, extents, [&](E& value, std::int64_t index) {
    value = E(static_cast<wide<E>>(stream.normal(index) * deviation));
  });
}

/// f(the local values on the host): the tensor's own, or, where the rank computes on a device, a
/// copy that replaces them after; `reads` says whether f looks at what is there.
template <class E, class D, class P, class F>
void visit_on_host(tensor<E, D, P>& x, bool reads, F&& f) {
  if (shapes_only::active()) return;
  if (device::of_this_rank() == nullptr) return f(x.data());
  const uncounted_memory until_copied;
  buffer<E> values(x.elements(), place::host);
  if (reads) copy_out(values.span(), x.values());
  f(values.data());
  copy_in(x.values(), values.span());
}

}  // namespace detail

/// Calls f(local element, global index) for every element that this rank holds; the global index
/// numbers the elements of the whole tensor row-major, the same in every layout. f runs on the
/// host.
template <class E, class D, class P, class F>
void for_each_global_index(tensor<E, D, P>& x, F&& f) {
  detail::visit_on_host(x, true, [&](E* values) {
    detail::for_each_index_in_box(values, x.where().regions(), x.global_shape().extents, f);
  });
}

/// Normal values with mean 0 and the deviation given, each a function of the stream and the global
/// index alone: all layouts get the same bits.
template <class E, class D, class P>
void fill_normal(tensor<E, D, P>& x, const random_stream& stream, double deviation) {
  detail::visit_on_host(x, false, [&](E* values) {
    detail::fill_box_with_normal(values, x.where().regions(), x.global_shape().extents, stream,
                                 deviation);
  });
}

template <class E, class D, class P>
void fill(tensor<E, D, P>& x, double value) {
  detail::visit_on_host(x, false, [&](E* values) {
    std::fill_n(values, x.elements(), E(static_cast<wide<E>>(value)));
  });
}

}  // namespace tenon::inline v0
