// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/base/check.hpp"
#include "tenon/base/type_list.hpp"

namespace tenon::inline v0 {

/// The dims of tensors that a decoder needs. A dim of a user's own is any struct with a name.
struct batch {
  static constexpr std::string_view name = "batch";
};
struct sequence {
  static constexpr std::string_view name = "sequence";
};
/// The places of a text: rows of a table that all sequences look up by position.
struct positions {
  static constexpr std::string_view name = "positions";
};
struct hidden {
  static constexpr std::string_view name = "hidden";
};
struct heads {
  static constexpr std::string_view name = "heads";
};
struct kv_heads {
  static constexpr std::string_view name = "kv_heads";
};
struct head_width {
  static constexpr std::string_view name = "head_width";
};
struct ffn {
  static constexpr std::string_view name = "ffn";
};
struct vocabulary {
  static constexpr std::string_view name = "vocabulary";
};
struct experts {
  static constexpr std::string_view name = "experts";
};

/// A type that may name a dim.
template <class D>
concept tensor_dim = requires {
  { D::name } -> std::convertible_to<std::string_view>;
};

/// The dims of a tensor, slowest in memory first.
template <tensor_dim... Ds>
struct dims {
  static_assert(all_different<Ds...>, "dims: a dim is named twice; name each dim once");
  static constexpr std::size_t size = sizeof...(Ds);
  template <class D>
  static constexpr bool has = is_one_of<D, Ds...>;
  template <class D>
  static constexpr std::size_t position = index_of<D, Ds...>();

  /// "batch, sequence, hidden".
  static std::string text() {
    std::string line;
    ((line += joined(line.empty() ? "" : ", ", Ds::name)), ...);
    return line;
  }
};

/// The dims of all lists given, in order.
template <class... Lists>
struct joined_dims;
template <class... As>
struct joined_dims<dims<As...>> {
  using type = dims<As...>;
};
template <class... As, class... Bs, class... Rest>
struct joined_dims<dims<As...>, dims<Bs...>, Rest...> {
  using type = typename joined_dims<dims<As..., Bs...>, Rest...>::type;
};
template <class... Lists>
using joined_dims_t = typename joined_dims<Lists...>::type;

/// The dims of `From` that are not in `Removed`.
template <class From, class Removed>
struct dims_without;
template <class... Fs, class Removed>
struct dims_without<dims<Fs...>, Removed> {
  template <class D>
  using kept = std::conditional_t<Removed::template has<D>, dims<>, dims<D>>;
  using type = joined_dims_t<dims<>, kept<Fs>...>;
};
template <class From, class Removed>
using dims_without_t = typename dims_without<From, Removed>::type;

/// True when every dim of `Part` is a dim of `Whole`.
template <class Part, class Whole>
inline constexpr bool dims_among = false;
template <class... Ps, class Whole>
inline constexpr bool dims_among<dims<Ps...>, Whole> = (Whole::template has<Ps> && ...);

/// The global extents of a tensor's dims, in elements.
/// Thread-safety: a value.
template <class Dims>
struct shape {
  std::array<std::int64_t, Dims::size> extents{};

  constexpr shape() = default;
  template <std::convertible_to<std::int64_t>... Extents>
  requires(sizeof...(Extents) == Dims::size &&
           sizeof...(Extents) > 0) constexpr shape(Extents... given)
      : extents{static_cast<std::int64_t>(given)...} {
    for (std::int64_t extent : extents) {
      if (extent < 0) require(false, "shape: an extent is ", extent, "; use zero or more");
    }
  }

  template <class D>
  constexpr std::int64_t of() const noexcept {
    static_assert(Dims::template has<D>,
                  "shape: the tensor has no such dim; use a dim that its type names");
    return extents[Dims::template position<D>];
  }

  /// The number of elements, in 64 bits.
  constexpr std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (std::int64_t extent : extents) product *= extent;
    return product;
  }

  friend constexpr bool operator==(const shape&, const shape&) = default;
};

}  // namespace tenon::inline v0
