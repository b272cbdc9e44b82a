// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tenon/base/host_device.hpp"

namespace tenon::inline v0 {

using fp32 = float;
using fp64 = double;

/// A 16-bit float with the exponent of fp32 and 7 bits of fraction. It only stores: arithmetic is
/// done in fp32 and rounded to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  TENON_BOTH constexpr explicit bf16(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    // A NaN whose set bits all lie in the half that is cut off would become infinity.
    const bool nan = (wide & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = wide + 0x7fffU + ((wide >> 16) & 1U);
    bits = static_cast<std::uint16_t>(nan ? ((wide >> 16) | 0x40U) : (rounded >> 16));
  }
  TENON_BOTH constexpr operator float() const noexcept {  // NOLINT: widening loses nothing
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(bf16) == 2, "bf16: must be two bytes");

/// A floating-point element of a tensor.
template <class T>
concept element = std::same_as<T, fp64> || std::same_as<T, fp32> || std::same_as<T, bf16>;

/// What the elements of a buffer are, as a value: for transports, files and messages.
enum class element_kind : std::uint8_t { byte, int32, int64, bf16, fp32, fp64 };

template <class T>
inline constexpr element_kind kind_of = [] {
  if constexpr (std::same_as<T, fp64>) return element_kind::fp64;
  if constexpr (std::same_as<T, fp32>) return element_kind::fp32;
  if constexpr (std::same_as<T, bf16>) return element_kind::bf16;
  if constexpr (std::same_as<T, std::int64_t>) return element_kind::int64;
  if constexpr (std::same_as<T, std::int32_t>) return element_kind::int32;
  return element_kind::byte;
}();

/// A type that a tensor or a message may hold.
template <class T>
concept storable = element<T> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::byte> || std::same_as<T, std::uint8_t> || std::same_as<T, char>;

constexpr std::int64_t bytes_of(element_kind kind) noexcept {
  switch (kind) {
    case element_kind::byte:
      return 1;
    case element_kind::bf16:
      return 2;
    case element_kind::int32:
    case element_kind::fp32:
      return 4;
    case element_kind::int64:
    case element_kind::fp64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(element_kind kind) noexcept {
  switch (kind) {
    case element_kind::byte:
      return "byte";
    case element_kind::int32:
      return "int32";
    case element_kind::int64:
      return "int64";
    case element_kind::bf16:
      return "bf16";
    case element_kind::fp32:
      return "fp32";
    case element_kind::fp64:
      return "fp64";
  }
  return "?";
}

/// The element in which sums over values of `T` are accumulated, statistics kept and the master
/// copy of a weight stored: fp64 for fp64, fp32 for fp32 and bf16.
template <element T>
using wide = std::conditional_t<std::same_as<T, fp64>, fp64, fp32>;

/// The value of an element in its wide type.
template <element T>
TENON_BOTH constexpr wide<T> widen(T value) noexcept {
  return static_cast<wide<T>>(value);
}

}  // namespace tenon::inline v0
