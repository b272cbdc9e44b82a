// SPDX-License-Identifier: Apache-2.0
// bf16: rounding to nearest, ties to even, and the special values.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tenon/base/element.hpp"

namespace {

using namespace tenon;

constexpr std::uint16_t rounded(float value) { return bf16(value).bits; }
constexpr float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr float stored(float value) { return static_cast<float>(bf16(value)); }

static_assert(rounded(1.0F) == 0x3f80 && rounded(-2.0F) == 0xc000 && rounded(0.0F) == 0);
static_assert(rounded(-0.0F) == 0x8000);

// Half way between two neighbours the even one is taken; a bit more or less decides otherwise.
static_assert(rounded(from_bits(0x3f808000)) == 0x3f80);
static_assert(rounded(from_bits(0x3f818000)) == 0x3f82);
static_assert(rounded(from_bits(0x3f808001)) == 0x3f81);
static_assert(rounded(from_bits(0x3f817fff)) == 0x3f81);
static_assert(rounded(from_bits(0xbf808000)) == 0xbf80);
static_assert(rounded(from_bits(0xbf818000)) == 0xbf82);

// 256 + 1 is no bf16: why sums are kept in fp32.
static_assert(stored(257.0F) == 256.0F && stored(258.0F) == 258.0F && stored(259.0F) == 260.0F);

// A carry out of the fraction, up to infinity; subnormals; infinities.
static_assert(rounded(from_bits(0x3fffffff)) == 0x4000);
static_assert(rounded(std::numeric_limits<float>::max()) == 0x7f80);
static_assert(rounded(from_bits(0x7f7f7fff)) == 0x7f7f);
static_assert(rounded(from_bits(0x00008000)) == 0 && rounded(from_bits(0x00018000)) == 2);
static_assert(rounded(from_bits(0x00000001)) == 0);
static_assert(rounded(std::numeric_limits<float>::infinity()) == 0x7f80);
static_assert(rounded(-std::numeric_limits<float>::infinity()) == 0xff80);

// A NaN stays one, also when all its bits lie in the half that is cut off.
constexpr bool is_nan(std::uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }
static_assert(is_nan(rounded(from_bits(0x7fc00000))) && is_nan(rounded(from_bits(0x7f800001))));
static_assert(is_nan(rounded(from_bits(0xff800001))) && is_nan(rounded(from_bits(0x7fffffff))));
static_assert(is_nan(rounded(from_bits(0xffffffff))) && is_nan(rounded(from_bits(0x7f808000))));

// What an element is, how large, and where its sums are kept.
static_assert(element<fp64> && element<fp32> && element<bf16>);
static_assert(!element<int> && !element<long double> && !element<const float>);
static_assert(storable<std::int32_t> && storable<std::byte> && !storable<bool>);
static_assert(std::same_as<wide<bf16>, fp32> && std::same_as<wide<fp32>, fp32> &&
              std::same_as<wide<fp64>, fp64>);
static_assert(widen(bf16(1.5F)) == 1.5F);
static_assert(bytes_of(kind_of<fp64>) == 8 && bytes_of(kind_of<fp32>) == 4 &&
              bytes_of(kind_of<bf16>) == 2 && bytes_of(kind_of<std::int64_t>) == 8 &&
              bytes_of(kind_of<std::int32_t>) == 4 && bytes_of(kind_of<std::byte>) == 1);
static_assert(name_of(kind_of<bf16>) == "bf16" && name_of(kind_of<char>) == "byte");

}  // namespace

BOOST_AUTO_TEST_SUITE(elements)

BOOST_AUTO_TEST_CASE(every_bf16_is_its_own_rounding) {
  int changed = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const std::uint16_t again = bf16(static_cast<float>(value)).bits;
    const bool same = is_nan(value.bits) ? is_nan(again) : again == value.bits;
    changed += same ? 0 : 1;
  }
  BOOST_TEST(changed == 0);
}

// Against the nearest of the two neighbours, found in fp64; every 4099th of all floats.
BOOST_AUTO_TEST_CASE(the_nearest_bf16_is_taken) {
  int wrong = 0;
  for (std::uint64_t bits = 0; bits < 0x7f7f0000; bits += 4099) {
    const auto value = from_bits(static_cast<std::uint32_t>(bits));
    const auto below = static_cast<std::uint16_t>(bits >> 16);
    const auto above = static_cast<std::uint16_t>(below + 1);
    const double down = static_cast<double>(value) - from_bits(std::uint32_t{below} << 16);
    const double up = from_bits(std::uint32_t{above} << 16) - static_cast<double>(value);
    const std::uint16_t even = below % 2 == 0 ? below : above;
    const std::uint16_t nearest = down < up ? below : (up < down ? above : even);
    wrong += rounded(value) == nearest ? 0 : 1;
    wrong += rounded(-value) == (nearest | 0x8000) ? 0 : 1;
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
