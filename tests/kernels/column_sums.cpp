// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"
#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/fuse.hpp"

using namespace tenon;
using samples::matrix;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::int64_t sizes[] = {0, 1, 7, 63, 64, 65};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(column_sums_agree_with_loops, T, samples::all_elements) {
  for (const std::int64_t rows : {0, 1, 7, 63, 64, 65, 300}) {
    for (const std::int64_t columns : sizes) {
      const matrix<T> x(rows, columns, "x");
      auto right = std::vector<double>(at(columns));
      auto sums = samples::numbers<wide<T>>(columns, "sums");
      auto fresh = sums;
      const auto start = sums;
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) right[at(j)] += x.at(i, j);
      }
      kernel::column_sum(std::span(fresh), x.view(), kernel::output::overwrite);
      BOOST_TEST(samples::difference(fresh, right) <= 300 * samples::rounding<wide<T>>);
      for (std::int64_t j = 0; j < columns; ++j) right[at(j)] += static_cast<double>(start[at(j)]);
      kernel::column_sum(std::span(sums), x.view());
      BOOST_TEST(samples::difference(sums, right) <= 300 * samples::rounding<wide<T>>);
    }
  }
}

BOOST_AUTO_TEST_CASE(column_sums_of_bf16_are_kept_in_fp32) {
  matrix<bf16> x(256, 1);
  for (std::int64_t i = 0; i < 256; ++i) x(i, 0) = bf16(i == 0 ? 1.0F : 0x1p-9F);
  std::vector<float> sum{0};
  kernel::column_sum(std::span(sum), x.view());
  BOOST_TEST(sum[0] == 1.498046875F);  // T-26
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_change_nothing, T, samples::all_elements) {
  const matrix<T> x(300, 201, "x");
  const auto once = [&] {
    matrix<T> y(300, 201);
    std::vector<wide<T>> sums(201);
    kernel::run(kernel::read{x.view()} | kernel::gelu{} |
                kernel::dropout{0.1F, random_stream(1, "d"), {0, {0}, 300, 300, 0, 201}} |
                kernel::write{y.view()});
    kernel::column_sum(std::span(sums), y.view());
    return std::pair(y, sums);
  };
  const auto one = once();
  for (const int count : {2, 3}) {
    const samples::with_threads more(count);
    const auto other = once();
    BOOST_TEST(one.first.same_as(other.first));
    BOOST_TEST((one.second == other.second));
  }
}
