// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "tenon/base/element.hpp"
#include "tenon/memory/seen_by_host.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

namespace detail {

template <class T>
std::string value_text(T value) {
  if constexpr (element<T>) {
    char digits[32];
    const int length =
        std::snprintf(digits, sizeof digits, "%.6g", static_cast<double>(widen(value)));
    return std::string(digits, static_cast<std::size_t>(length));
  } else {
    return std::to_string(static_cast<long long>(value));
  }
}

template <class... Ds>
std::string extents_text(dims<Ds...>, const shape<dims<Ds...>>& global) {
  std::string text;
  std::size_t i = 0;
  ((text += joined(text.empty() ? "" : ", ", Ds::name, " ", global.extents[i++])), ...);
  return text;
}

}  // namespace detail

/// One line about a tensor: its element, global shape and placement, and what this rank holds.
///
///   "fp32 [batch 4, hidden 6] data: sharded<batch>, tensor: partial; here 0..1 x 0..5"
template <class E, class D, class P>
std::string described(const tensor<E, D, P>& x) {
  std::string text = joined(name_of(kind_of<E>), " [", detail::extents_text(D{}, x.global_shape()),
                            "] ", P::text(), "; here ");
  if (x.empty()) return text + "nothing";
  for (std::size_t d = 0; d < D::size; ++d) {
    const region& r = x.where().regions()[d];
    text += joined(d == 0 ? "" : " x ", r.begin, "..", r.end() - 1);
  }
  return D::size == 0 ? text + "one number" : text;
}

/// This rank's values, a line for each index of the dims but the last, at most `most_lines` of them
/// (the rest is counted).
template <class E, class D, class P>
std::string values_text(const tensor<E, D, P>& x, std::int64_t most_lines = 16) {
  if (x.data() == nullptr || x.empty()) return "";
  auto m = x.template matrix < D::size == 0 ? 0 : 1 > ();
  const seen_by_host<E> here(x.values());
  m.data = here.values().data();
  std::string text;
  for (std::int64_t i = 0; i < std::min(m.rows, most_lines); ++i) {
    for (std::int64_t j = 0; j < m.columns; ++j) {
      text += (j == 0 ? "" : " ") + detail::value_text(m(i, j));
    }
    text += "\n";
  }
  if (m.rows > most_lines) text += joined("... and ", m.rows - most_lines, " lines more\n");
  return text;
}

}  // namespace tenon::inline v0
