// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::inline v0 {

/// The FNV-1a hash of a text, 64 bits. Names of parameters and of random streams are hashed by it,
/// so that it is part of what makes a run the same in every layout.
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, the FNV non-cryptographic hash (RFC 9923).
constexpr std::uint64_t hash_of(std::string_view text,
                                std::uint64_t start = 0xcbf29ce484222325ULL) noexcept {
  std::uint64_t hash = start;
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

/// The plain name of a type that has `static constexpr std::string_view name`.
template <class T>
constexpr std::string_view name_of() {
  return T::name;
}

/// A number with separators between its thousands: 1,234,567.
inline std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return number < 0 ? "-" + digits : digits;
}

/// Bytes for a reader: "512 B", "1.5 KB", "23.4 MB" (powers of 1000).
inline std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 5) {
    bytes /= 1000;
    ++unit;
  }
  const double scale = unit == 0 || bytes >= 99.95 ? 1 : 10;
  const auto tenths = static_cast<std::int64_t>(bytes * scale + 0.5);
  std::string text = std::to_string(scale == 1 ? tenths : tenths / 10);
  if (scale != 1) text += "." + std::to_string(tenths % 10);
  return text + " " + units[unit];
}

}  // namespace tenon::inline v0
