// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "samples.hpp"
#include "tenon/kernel/grouped_product.hpp"
#include "tenon/kernel/routing.hpp"
#include "tenon/kernel/rows/softmax.hpp"
#include "tenon/kernel/rows/top_k.hpp"

using namespace tenon;
using samples::matrix;
using samples::slope_bar;

namespace {

using wide_elements = std::tuple<fp64, fp32>;
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<std::int32_t> choices_of(const matrix<fp64>& x, std::int64_t k) {
  matrix<std::int32_t> chosen(x.rows, k);
  matrix<fp64> shares(x.rows, k);
  kernel::top_k(chosen.view(), shares.view(), x.view());
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < k; ++j) all.push_back(chosen(i, j));
  }
  return all;
}

matrix<fp64> rows_of(const std::vector<std::vector<double>>& values) {
  matrix<fp64> x(std::ssize(values), std::ssize(values[0]));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.columns; ++j) x(i, j) = values[at(i)][at(j)];
  }
  return x;
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_equal_values_the_lower_column_is_chosen) {
  const auto x = rows_of({{1, 3, 3, 2}, {5, 5, 5, 5}, {0, -1, 7, 7}, {-2, -2, -3, -2}});
  const std::vector<std::int32_t> two{1, 2, 0, 1, 2, 3, 0, 1};
  BOOST_TEST(choices_of(x, 2) == two, boost::test_tools::per_element());
  const std::vector<std::int32_t> all{1, 2, 3, 0, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 3, 2};
  BOOST_TEST(choices_of(x, 4) == all, boost::test_tools::per_element());
  const std::vector<std::int32_t> one{1, 0, 2, 0};
  BOOST_TEST(choices_of(x, 1) == one, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(zeros_of_both_signs_are_equal_and_nan_chooses_columns_that_exist) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto x = rows_of({{-0.0, 0.0, -1}, {nan, nan, nan}, {-infinite, -infinite, -infinite}});
  const std::vector<std::int32_t> two{0, 1, 0, 1, 0, 1};
  BOOST_TEST(choices_of(x, 2) == two, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(too_many_choices_are_refused) {
  const matrix<fp64> x(2, 3, "x");
  BOOST_CHECK_THROW(choices_of(x, 4), error);
  BOOST_CHECK_THROW(choices_of(x, 0), error);
}

// The softmax over all columns, its largest values made to sum to 1.
BOOST_AUTO_TEST_CASE_TEMPLATE(shares_are_the_softmax_of_all_renormalised, T, wide_elements) {
  for (const std::int64_t columns : {1, 3, 8, 65}) {
    for (const std::int64_t k : {std::int64_t{1}, std::min<std::int64_t>(columns, 3), columns}) {
      const matrix<T> x(9, columns, "x", 8);
      matrix<T> softmax(9, columns), shares(9, k);
      matrix<std::int32_t> chosen(9, k);
      kernel::softmax(softmax.view(), x.view());
      kernel::top_k(chosen.view(), shares.view(), x.view());
      matrix<fp64> right(9, k);
      for (std::int64_t i = 0; i < 9; ++i) {
        std::set<std::int32_t> different;
        double sum = 0;
        for (std::int64_t j = 0; j < k; ++j) {
          different.insert(chosen(i, j));
          sum += softmax.at(i, chosen(i, j));
          if (j > 0) BOOST_TEST(x.at(i, chosen(i, j - 1)) >= x.at(i, chosen(i, j)));
        }
        BOOST_TEST(std::ssize(different) == k);
        for (std::int64_t j = 0; j < columns; ++j) {
          if (different.count(static_cast<std::int32_t>(j)) != 0) continue;
          BOOST_TEST(x.at(i, j) <= x.at(i, chosen(i, k - 1)));
        }
        for (std::int64_t j = 0; j < k; ++j) right(i, j) = softmax.at(i, chosen(i, j)) / sum;
      }
      BOOST_TEST(samples::difference(shares, right) <= 100 * samples::rounding<T>);
      BOOST_TEST((chosen.gaps_untouched() && shares.gaps_untouched()));
    }
  }
}

BOOST_AUTO_TEST_CASE(shares_have_the_slope_that_backward_gives) {
  matrix<fp64> x(4, 6, "x", 3);
  const matrix<fp64> weights(4, 3, "weights");
  matrix<std::int32_t> chosen(4, 3);
  matrix<fp64> shares(4, 3);
  const auto forward = [&] {
    kernel::top_k(chosen.view(), shares.view(), x.view());
    return samples::weighted(shares, weights);
  };
  const auto right = samples::slopes(x, forward);
  forward();
  matrix<fp64> dx(4, 6, "before");
  kernel::top_k_backward(dx.view(), weights.view(), shares.view(), chosen.view());
  BOOST_TEST(samples::difference(dx, right) < slope_bar);
  BOOST_TEST(dx.gaps_untouched());
}

BOOST_AUTO_TEST_CASE(slots_are_sorted_by_expert_then_by_slot) {
  const std::vector<std::int32_t> chosen{2, 0, 2, 1, 4, 2, 0, 4};  // nobody chose 3
  std::vector<std::int64_t> row_of_slot(8), slot_of_row(8), counts(5, 77);
  kernel::sort_slots(row_of_slot, slot_of_row, counts, chosen);
  const std::vector<std::int64_t> counted{2, 1, 3, 0, 2};
  const std::vector<std::int64_t> order{1, 6, 3, 0, 2, 5, 4, 7};
  BOOST_TEST(counts == counted, boost::test_tools::per_element());
  BOOST_TEST(slot_of_row == order, boost::test_tools::per_element());
  for (std::int64_t slot = 0; slot < 8; ++slot) {
    BOOST_TEST(slot_of_row[at(row_of_slot[at(slot)])] == slot);
  }
  std::vector<std::int64_t> none, zeros(3, 77);
  kernel::sort_slots(none, none, zeros, std::vector<std::int32_t>{});
  BOOST_TEST(std::accumulate(zeros.begin(), zeros.end(), std::int64_t{0}) == 0);
  BOOST_CHECK_THROW(kernel::sort_slots(row_of_slot, slot_of_row, zeros, chosen), error);
}

// Tokens to slots, and slots back to tokens, against plain loops.
BOOST_AUTO_TEST_CASE_TEMPLATE(rows_go_to_slots_and_back, T, samples::all_elements) {
  using W = wide<T>;
  const std::int64_t tokens = 7, k = 3, width = 13;
  const matrix<T> x(tokens, width, "x");
  const matrix<W> shares(tokens, k, "shares");
  std::vector<std::int64_t> row_of_slot(at(tokens * k)), slot_of_row(row_of_slot.size());
  for (std::int64_t slot = 0; slot < tokens * k; ++slot) {
    row_of_slot[at(slot)] = slot * 8 % (tokens * k);  // 8 and 21 share no divisor
    slot_of_row[at(row_of_slot[at(slot)])] = slot;
  }
  matrix<T> sent(tokens * k, width);
  kernel::gather_rows<T>(sent.view(), x.view(), slot_of_row, k);
  matrix<T> right(tokens * k, width);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = 0; j < width; ++j)
        right(row_of_slot[at(t * k + i)], j) = x.view()(t, j);
    }
  }
  BOOST_TEST(sent.same_as(right));

  matrix<T> rows(tokens * k, width, "answers"), y(tokens, width), dx(tokens, width);
  const matrix<T> before = rows;
  matrix<fp64> right_y(tokens, width), right_dx(tokens, width);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        const double value = rows.at(row_of_slot[at(t * k + i)], j);
        right_y(t, j) += shares.at(t, i) * value;
        right_dx(t, j) += value;
      }
    }
  }
  kernel::combine_rows<T>(y.view(), rows.view(), row_of_slot, shares.view());
  kernel::sum_of_slots<T>(dx.view(), rows.view(), row_of_slot, k);
  BOOST_TEST(samples::difference(y, right_y) <= samples::bar<T>);
  BOOST_TEST(samples::difference(dx, right_dx) <= samples::bar<T>);

  const matrix<T> dy(tokens, width, "dy");
  matrix<W> dshares(tokens, k);
  kernel::combine_rows_backward<T>(dshares.view(), rows.view(), dy.view(), row_of_slot,
                                   shares.view());
  matrix<fp64> right_shares(tokens, k), right_rows(tokens * k, width);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t row = row_of_slot[at(t * k + i)];
      for (std::int64_t j = 0; j < width; ++j) {
        right_shares(t, i) += dy.at(t, j) * before.at(row, j);
        right_rows(row, j) = shares.at(t, i) * dy.at(t, j);
      }
    }
  }
  BOOST_TEST(samples::difference(dshares, right_shares) <= samples::bar<W>);
  BOOST_TEST(samples::difference(rows, right_rows) <= samples::bar<T>);
  BOOST_TEST((rows.gaps_untouched() && y.gaps_untouched() && dshares.gaps_untouched()));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(grouped_products_agree_with_loops, T, samples::all_elements) {
  using W = wide<T>;
  const std::int64_t k = 5, n = 4;
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{3, 0, 4, 1}, {0, 0, 2, 0}, {0}, {6}, {}}) {
    const std::int64_t groups = std::ssize(counts);
    const auto rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const matrix<T> a(rows, k, "a"), weights(groups * k, n, "weights"), dc(rows, n, "dc");
    matrix<T> c(rows, n), da(rows, k);
    matrix<W> dw(groups * k, n, "dw");
    matrix<fp64> right(rows, n), right_da(rows, k), right_dw(groups * k, n);
    for (std::int64_t i = 0; i < groups * k; ++i) {
      for (std::int64_t j = 0; j < n; ++j) right_dw(i, j) = dw.at(i, j);
    }
    std::int64_t row = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t i = 0; i < counts[at(g)]; ++i, ++row) {
        for (std::int64_t l = 0; l < k; ++l) {
          for (std::int64_t j = 0; j < n; ++j) {
            right(row, j) += a.at(row, l) * weights.at(g * k + l, j);
            right_da(row, l) += dc.at(row, j) * weights.at(g * k + l, j);
            right_dw(g * k + l, j) += a.at(row, l) * dc.at(row, j);
          }
        }
      }
    }
    kernel::grouped_product(c.view(), a.view(), weights.view(), kernel::orientation::as_stored,
                            counts);
    kernel::grouped_product(da.view(), dc.view(), weights.view(), kernel::orientation::transposed,
                            counts);
    kernel::grouped_outer_product(dw.view(), a.view(), dc.view(), counts);
    BOOST_TEST(samples::difference(c, right) <= samples::bar<T>);
    BOOST_TEST(samples::difference(da, right_da) <= samples::bar<T>);
    BOOST_TEST(samples::difference(dw, right_dw) <= samples::bar<W>);
    BOOST_TEST((c.gaps_untouched() && da.gaps_untouched() && dw.gaps_untouched()));
  }
  const matrix<T> a(3, k), weights(2 * k, n);
  matrix<T> c(3, n);
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{1, 1}, {3, 1}, {4, -1}, {1, 1, 1}}) {
    BOOST_CHECK_THROW(kernel::grouped_product(c.view(), a.view(), weights.view(),
                                              kernel::orientation::as_stored, counts),
                      error);
  }
}
