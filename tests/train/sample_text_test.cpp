// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/sample_text.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>
#include <vector>

#include "refusal.hpp"

using namespace tenon;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string shown(const std::string& bytes) {
  return printable({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

template <class T>
std::int32_t drawn(const std::vector<T>& logits, double temperature, std::int64_t index = 0) {
  return next_token(std::span<const T>(logits), temperature, random_stream(1, "sample"), index);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_come_as_often_as_the_softmax_says) {
  // Weights 1 : 2 : 5, and a token that is impossible.
  const std::vector<double> logits{std::log(1.0) + 700, std::log(2.0) + 700, -infinity,
                                   std::log(5.0) + 700};
  std::vector<int> seen(4);
  const int draws = 80'000;
  for (int i = 0; i < draws; ++i) ++seen[static_cast<std::size_t>(drawn(logits, 1, i))];
  BOOST_TEST(seen[2] == 0);
  const double expected[] = {0.125, 0.25, 0, 0.625};
  for (std::size_t token = 0; token < 4; ++token) {  // 5 deviations are at most 0.0088
    BOOST_TEST(std::abs(seen[token] / double(draws) - expected[token]) < 0.0088);
  }
  // Half the temperature squares the weights: 1 : 4 : 25.
  int last = 0;
  for (int i = 0; i < draws; ++i) last += drawn(logits, 0.5, i) == 3 ? 1 : 0;
  BOOST_TEST(std::abs(last / double(draws) - 25.0 / 30) < 0.0088);
}

BOOST_AUTO_TEST_CASE(a_draw_is_a_function_of_stream_and_index) {
  const std::vector<float> logits(256, 0.5F);
  int differ = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    BOOST_TEST(drawn(logits, 1, i) == drawn(logits, 1, i));
    differ += drawn(logits, 1, i) != drawn(logits, 1, i + 1) ? 1 : 0;
  }
  BOOST_TEST(differ > 90);
}

BOOST_AUTO_TEST_CASE(temperature_zero_takes_the_largest) {
  BOOST_TEST(drawn<double>({1, 3, 2, 3}, 0) == 1);
  BOOST_TEST(drawn<float>({-1e30F}, 0) == 0);
  BOOST_TEST(drawn<bf16>({bf16(1.F), bf16(2.F)}, 0) == 1);
  // Tiny temperatures and huge logits tend to the same without overflow.
  BOOST_TEST(drawn<double>({1e308, -1e308, 9e307}, 1e-300) == 0);
  BOOST_TEST(drawn<float>({static_cast<float>(-infinity), -3e38F}, 1) == 1);
}

BOOST_AUTO_TEST_CASE(what_is_not_a_number_is_refused) {
  BOOST_TEST(
      refusal_of([] {
        drawn<double>({0, std::nan("")}, 1);
      }) ==
      "1: next_token: the logit of token 1 is not a number; the weights have left the finite "
      "numbers");
  BOOST_TEST(refusal_of([] { drawn<double>({infinity}, 0); }).find("1: next_token") == 0U);
  BOOST_TEST(refusal_of([] {
               drawn<double>({-infinity, -infinity}, 1);
             }) == "1: next_token: all logits are minus infinity; allow one token");
  BOOST_TEST(refusal_of([] { drawn<double>({}, 1); }).find("2: next_token: there are no logits") ==
             0U);
  for (double temperature : {-1.0, infinity, std::nan("")}) {
    BOOST_TEST(refusal_of([&] { drawn<double>({1}, temperature); }).find("the temperature is") !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(samples_are_safe_on_a_terminal) {
  BOOST_TEST(shown("You may\n\tcopy it.") == "You may\n\tcopy it.");
  BOOST_TEST(shown(std::string("a\0b", 3)) == "a\\x00b");
  BOOST_TEST(shown("\033[2J\r\x7f\\") == "\\x1b[2J\\x0d\\x7f\\\\");
  BOOST_TEST(shown("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82") ==
             "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
  BOOST_TEST(shown("") == "");
  // Cut off, out of place, longer than needed, surrogate, beyond Unicode, control characters.
  BOOST_TEST(shown("\xc3") == "\\xc3");
  BOOST_TEST(shown("\xe2\x82") == "\\xe2\\x82");
  BOOST_TEST(shown("\x82z") == "\\x82z");
  BOOST_TEST(shown("\xc3z") == "\\xc3z");
  BOOST_TEST(shown("\xc0\x80") == "\\xc0\\x80");
  BOOST_TEST(shown("\xe0\x80\x80") == "\\xe0\\x80\\x80");
  BOOST_TEST(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  BOOST_TEST(shown("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  BOOST_TEST(shown("\xc2\x9b") == "\\xc2\\x9b");
  BOOST_TEST(shown("\xe2\x80\xae") == "\\xe2\\x80\\xae");
  BOOST_TEST(shown("\xff") == "\\xff");
}

BOOST_AUTO_TEST_CASE(every_byte_comes_out_printable) {
  std::string random;
  const random_stream stream(3, "bytes");
  for (std::int64_t i = 0; i < 20'000; ++i) random += static_cast<char>(stream.bits(i));
  for (char c : shown(random)) {
    const auto code = static_cast<unsigned char>(c);
    BOOST_TEST((code >= 0x20 || c == '\n' || c == '\t'));
    BOOST_TEST(code != 0x7f);
  }
}
