// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"
#include "tenon/kernel/embedding.hpp"
#include "tenon/kernel/rotary.hpp"

using namespace tenon;
using samples::matrix;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Row by row, pairs (i, i + width/2) turned by position * base^(-2i/width).
matrix<fp64> turned(const matrix<fp64>& x, const std::vector<std::int64_t>& positions,
                    std::int64_t width, double sign) {
  matrix<fp64> y(x.rows, x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t c = 0; c < x.columns; ++c) {
      const std::int64_t i = c % width;
      const bool first = i < width / 2;
      const std::int64_t pair = i % (width / 2);
      const double angle =
          sign *
          static_cast<double>(positions[at(row % static_cast<std::int64_t>(positions.size()))]) *
          std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
      const double other = x.at(row, first ? c + width / 2 : c - width / 2);
      y(row, c) = x.at(row, c) * std::cos(angle) + (first ? -1 : 1) * other * std::sin(angle);
    }
  }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(rotations_agree_with_their_definition, T, samples::all_elements) {
  for (const std::int64_t width : {2, 6, 64, 66}) {
    const std::vector<std::int64_t> positions{0, 1, 6, 7, 1000};
    const matrix<fp64> exact(10, 3 * width, "x");
    const auto angles =
        kernel::make_angles<wide<T>>(std::span<const std::int64_t>(positions), width);
    matrix<T> x(10, 3 * width, "x");
    kernel::rotate(x.view(), angles);
    BOOST_TEST(samples::difference(x, turned(exact, positions, width, 1)) <= samples::bar<T>);
    x = matrix<T>(10, 3 * width, "x");
    kernel::rotate(x.view(), angles, kernel::rotation::backward);
    BOOST_TEST(samples::difference(x, turned(exact, positions, width, -1)) <= samples::bar<T>);
    BOOST_TEST(x.gaps_untouched());
    // There and back.
    x = matrix<T>(10, 3 * width, "x");
    kernel::rotate(x.view(), angles);
    kernel::rotate(x.view(), angles, kernel::rotation::backward);
    BOOST_TEST(samples::difference(x, exact) <= 3 * samples::bar<T>);
  }
}

BOOST_AUTO_TEST_CASE(positions_are_those_of_the_whole_sequence) {
  // T-16, on one rank: local row 2 of zigzag 0,1,6,7 stands at position 6, angle rate 1.
  const std::vector<std::int64_t> zigzag{0, 1, 6, 7};
  const auto angles = kernel::make_angles<fp32>(std::span<const std::int64_t>(zigzag), 2);
  BOOST_TEST(std::abs(angles.cosine[2] - 0.960170F) < 1e-6F);
  BOOST_TEST(std::abs(angles.sine[2] + 0.279415F) < 1e-6F);
  const auto shifted = kernel::make_angles<fp32>(6, 1, 2);
  BOOST_TEST(shifted.cosine[0] == angles.cosine[2]);
  BOOST_TEST(shifted.sine[0] == angles.sine[2]);
}

BOOST_AUTO_TEST_CASE(rotary_sizes_are_checked) {
  BOOST_CHECK_THROW(kernel::make_angles<fp32>(0, 4, 3), error);
  const auto angles = kernel::make_angles<fp32>(0, 4, 4);
  matrix<fp32> x(6, 8, "x");
  BOOST_CHECK_THROW(kernel::rotate(x.view(), angles), error);
  matrix<fp32> narrow(8, 6, "x");
  BOOST_CHECK_THROW(kernel::rotate(narrow.view(), angles), error);
  matrix<fp32> none(0, 8);
  kernel::rotate(none.view(), angles);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(shards_of_an_embedding_sum_to_the_lookup, T, samples::all_elements) {
  for (const std::int64_t columns : {0, 1, 7, 63, 64, 65}) {
    const matrix<T> table(11, columns, "table");
    const std::vector<std::int32_t> tokens{0, 10, 3, 3, 7, 3, 5};
    matrix<fp64> sum(7, columns);
    // Shards of 4, 0 and 7 words.
    const std::int64_t cuts[] = {0, 4, 4, 11};
    for (int s = 0; s < 3; ++s) {
      matrix<T> y(7, columns, "old");
      kernel::embedding(y.view(), tokens, table.view().rows_from(cuts[s], cuts[s + 1] - cuts[s]),
                        cuts[s]);
      for (std::int64_t i = 0; i < 7; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) sum(i, j) += y.at(i, j);
      }
      BOOST_TEST(y.gaps_untouched());
    }
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        BOOST_TEST(sum(i, j) == table.at(tokens[at(i)], j));
      }
    }
    // Backward: every row is added where it was read, in shards as in the whole.
    const matrix<T> dy(7, columns, "dy");
    matrix<wide<T>> whole(11, columns, "start");
    matrix<wide<T>> pieces = whole;
    matrix<fp64> right = samples::converted<fp64>(whole);
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) right(tokens[at(i)], j) += dy.at(i, j);
    }
    kernel::embedding_backward(whole.view(), tokens, dy.view());
    for (int s = 0; s < 3; ++s) {
      kernel::embedding_backward(pieces.view().rows_from(cuts[s], cuts[s + 1] - cuts[s]), tokens,
                                 dy.view(), cuts[s]);
    }
    BOOST_TEST(samples::difference(whole, right) <= 10 * samples::rounding<wide<T>>);
    BOOST_TEST(pieces.same_as(whole));
    BOOST_TEST(whole.gaps_untouched());
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(learned_positions_are_added, T, samples::all_elements) {
  const std::int64_t columns = 65;
  const matrix<T> table(9, columns, "table");
  const matrix<T> before(6, columns, "x");
  matrix<T> x = before;
  const kernel::row_places place{.runs = {4}, .rows = 3};
  kernel::add_positions(x.view(), table.view(), place);
  matrix<fp64> right(6, columns);
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      right(i, j) = before.at(i, j) + table.at(4 + i % 3, j);
    }
  }
  BOOST_TEST(samples::difference(x, right) <= samples::bar<T>);
  const matrix<T> dy(6, columns, "dy");
  matrix<wide<T>> gradient(9, columns, "start");
  matrix<fp64> sums = samples::converted<fp64>(gradient);
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) sums(4 + i % 3, j) += dy.at(i, j);
  }
  kernel::add_positions_backward(gradient.view(), dy.view(), place);
  BOOST_TEST(samples::difference(gradient, sums) <= 10 * samples::rounding<wide<T>>);
  const matrix<T> narrow(9, columns - 1, "table");
  BOOST_CHECK_THROW(kernel::add_positions(x.view(), narrow.view(), place), error);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_change_nothing, T, samples::all_elements) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 600; ++i) tokens.push_back(i * i % 13);
  const matrix<T> dy(600, 70, "dy");
  const auto angles = kernel::make_angles<wide<T>>(3, 300, 14);
  const auto once = [&] {
    matrix<wide<T>> gradient(13, 70);
    kernel::embedding_backward(gradient.view(), tokens, dy.view());
    matrix<T> x = dy;
    kernel::rotate(x.view(), angles);
    return std::pair(gradient, x);
  };
  const auto one = once();
  const samples::with_threads two(2);
  const auto other = once();
  BOOST_TEST(one.first.same_as(other.first));
  BOOST_TEST(one.second.same_as(other.second));
}
