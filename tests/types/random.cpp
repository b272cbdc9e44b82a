// SPDX-License-Identifier: Apache-2.0
// Random numbers as functions of (seed, name, step, index), and permutations.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "tenon/base/random.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;

// The known answers that the authors of Philox give for ten rounds.
using four = std::array<std::uint32_t, 4>;
static_assert(philox({0, 0, 0, 0}, {0, 0}) == four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

// The FNV-1a hash of the empty text, of "a" and of "foobar".
static_assert(hash_of("") == 0xcbf29ce484222325 && hash_of("a") == 0xaf63dc4c8601ec8c);
static_assert(hash_of("foobar") == 0x85944171f73967e8);

// Seed, name, step and index all count, and nothing else does.
constexpr random_stream weights(1, "block.0.weight");
static_assert(weights.bits(7) == random_stream(1, "block.0.weight", 0).bits(7));
static_assert(weights.bits(7) != random_stream(2, "block.0.weight").bits(7));
static_assert(weights.bits(7) != random_stream(1, "block.1.weight").bits(7));
static_assert(weights.bits(7) != random_stream(1, "block.0.weight", 1).bits(7));
static_assert(weights.bits(7) != weights.bits(8));
static_assert(weights.bits(7) != weights.bits(7 + (std::int64_t{1} << 32)));
static_assert(weights.words(7) ==
              philox({7, 0, 0, 0}, {static_cast<std::uint32_t>(weights.key),
                                    static_cast<std::uint32_t>(weights.key >> 32)}));

constexpr bool is_bijection(std::int64_t size, std::uint64_t seed) {
  const permutation order(size, random_stream(seed, "order"));
  std::vector<int> hit(static_cast<std::size_t>(size), 0);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t image = order(i);
    if (image < 0 || image >= size || hit[static_cast<std::size_t>(image)] != 0) return false;
    hit[static_cast<std::size_t>(image)] = 1;
  }
  return true;
}
static_assert(is_bijection(0, 1) && is_bijection(1, 1) && is_bijection(2, 1) && is_bijection(7, 3));

}  // namespace

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(permutations_are_bijections) {
  for (std::int64_t size = 0; size <= 130; ++size) BOOST_TEST(is_bijection(size, 5));
  for (const std::int64_t size : {1023, 1024, 1025, 65537}) BOOST_TEST(is_bijection(size, 6));
}

BOOST_AUTO_TEST_CASE(permutations_differ_between_seeds_and_move_most) {
  const permutation first(1000, random_stream(1, "order"));
  const permutation second(1000, random_stream(2, "order"));
  int stayed = 0;
  int agreed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    stayed += first(i) == i ? 1 : 0;
    agreed += first(i) == second(i) ? 1 : 0;
  }
  BOOST_TEST(stayed < 10);  // one is expected
  BOOST_TEST(agreed < 10);
}

BOOST_AUTO_TEST_CASE(permutations_of_more_than_two_to_the_32) {
  const std::int64_t size = (std::int64_t{1} << 33) + 5;
  const permutation order(size, random_stream(1, "order"));
  std::set<std::int64_t> images;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t image = order(size - 1 - i * 8'000'003);
    BOOST_TEST(image >= 0);
    BOOST_TEST(image < size);
    images.insert(image);
  }
  BOOST_TEST(images.size() == 1000U);
  BOOST_TEST(*images.rbegin() > (std::int64_t{1} << 32));
}

// The pieces of a tensor, filled by each rank alone, are the pieces of the tensor that one rank
// fills: bitwise, in every layout.
BOOST_AUTO_TEST_CASE(every_layout_sees_the_same_numbers) {
  using matrix = dims<hidden, ffn>;
  using split = placement<on<axis::data, sharded<hidden>>, on<axis::tensor, sharded<ffn>>>;
  const shape<matrix> global(5, 7);
  std::vector<double> serial(35);
  for (std::int64_t n = 0; n < 35; ++n) serial[static_cast<std::size_t>(n)] = weights.normal(n);
  for (const auto& [data, tensor] : {std::pair{1, 1}, {2, 3}, {3, 2}, {8, 1}}) {
    std::vector<double> gathered(35, -100);
    for (int rank = 0; rank < data * tensor; ++rank) {
      const layout<matrix, split> here(global,
                                       mesh<axis::data, axis::tensor>({data, tensor}, rank));
      const region rows = here.of<hidden>();
      const region columns = here.of<ffn>();
      for (std::int64_t i = rows.begin; i < rows.end(); ++i)
        for (std::int64_t j = columns.begin; j < columns.end(); ++j)
          gathered[static_cast<std::size_t>(i * 7 + j)] = weights.normal(i * 7 + j);
    }
    BOOST_TEST(gathered == serial, boost::test_tools::per_element());
  }
}

// Means and deviations within five of their standard errors.
BOOST_AUTO_TEST_CASE(uniform_and_normal_numbers_are_spread_right) {
  constexpr std::int64_t count = 200'000;
  double uniform_sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  bool in_range = true;
  for (std::int64_t n = 0; n < count; ++n) {
    const float u = weights.uniform(n);
    const double z = weights.normal(n);
    in_range = in_range && u >= 0 && u < 1 && std::isfinite(z);
    uniform_sum += u;
    normal_sum += z;
    normal_squares += z * z;
  }
  const double root = std::sqrt(static_cast<double>(count));
  BOOST_TEST(in_range);
  BOOST_TEST(std::abs(uniform_sum / count - 0.5) < 5 * std::sqrt(1.0 / 12) / root);
  BOOST_TEST(std::abs(normal_sum / count) < 5 / root);
  BOOST_TEST(std::abs(normal_squares / count - 1) < 5 * std::sqrt(2.0) / root);
}

BOOST_AUTO_TEST_SUITE_END()
