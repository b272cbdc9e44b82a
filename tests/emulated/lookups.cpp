// SPDX-License-Identifier: Apache-2.0
// Tables, positions and sums over rows on a device: the host's bits, in the host's order of sums.
#include "both.hpp"
#include "tenon/kernel/emulated_services.hpp"
#include "tenon/kernel/programs.hpp"

using namespace tenon;
using namespace both;

namespace {

template <class T>
void enter() {
  kernel::enter_emulated_programs(kernel::lookup_programs<T>{});
  kernel::enter_emulated_programs(kernel::plain_programs{});
  kernel::enter_emulated_services();
}

struct size {
  std::int64_t columns, gap;
};
constexpr size sizes[] = {{1, 0}, {64, 0}, {64, 3}, {1100, 4}, {333, 0}};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(lookups_on_a_device, T, samples::all_elements) {
  enter<T>();
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 150; ++i) tokens.push_back(i % 4 == 0 ? 7 : i * i % 23);
  for (const auto& [columns, gap] : sizes) {
    for (const std::int64_t begin : {0, 5}) {  // rows 5 .. 16 of a table of 23, or all
      const samples::matrix<T> table(begin == 0 ? 23 : 12, columns, "table");
      const samples::matrix<T> dy(150, columns, "dy");
      samples::matrix<T> y(150, columns, "old"), added = y;
      samples::matrix<wide<T>> sums(table.rows, columns, "sums");
      const on_emulated device(all_orders[columns % 3]);
      numbers<std::int32_t> d_tokens(tokens);
      matrix<T> d_table(table, gap), d_dy(dy, gap), d_y(y, gap), d_added(added, gap);
      matrix<wide<T>> d_sums(sums, gap);
      const auto all = [&](auto of_y, auto of_added, auto of_sums, auto of_table, auto of_dy,
                           std::span<const std::int32_t> words) {
        kernel::embedding(of_y, words, of_table, begin);
        kernel::embedding(of_added, words, of_table, begin, kernel::output::accumulate);
        kernel::embedding_backward(of_sums, words, of_dy, begin);
      };
      all(d_y.view(), d_added.view(), d_sums.view(), d_table.view(), d_dy.view(), d_tokens.span());
      {
        const computes_on host(nullptr);
        all(y.view(), added.view(), sums.view(), table.view(), dy.view(), tokens);
      }
      BOOST_TEST_CONTEXT(columns << " + " << gap << " from " << begin) {
        BOOST_TEST(d_y.back().same_as(y));
        BOOST_TEST(d_added.back().same_as(added));
        BOOST_TEST(d_sums.back().same_as(sums));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(positions_on_a_device, T, samples::all_elements) {
  enter<T>();
  // 2 sequences of 9, of which rows 0 .. 2 and 6 .. 8 are here; documents begin at 0, 4 and 7.
  const std::vector<std::int32_t> begins{0, 0, 0, 0, 4, 4, 4, 7, 7, 0, 0, 2, 2, 2, 2, 2, 2, 2};
  for (const auto& [columns, gap] : sizes) {
    for (const bool packed : {false, true}) {
      const samples::matrix<T> table(9, columns, "table");
      const samples::matrix<T> dy(12, columns, "dy");
      samples::matrix<T> x(12, columns, "x");
      samples::matrix<wide<T>> sums(9, columns, "sums");
      const on_emulated device;
      numbers<std::int32_t> d_begins(begins);
      matrix<T> d_table(table, gap), d_dy(dy, gap), d_x(x, gap);
      matrix<wide<T>> d_sums(sums, gap);
      const auto places = [&](const std::int32_t* documents) {
        return kernel::row_places{.runs = {0, 3, 6},
                                  .rows = 6,
                                  .document_begins = packed ? documents : nullptr,
                                  .length = 9};
      };
      kernel::add_positions(d_x.view(), d_table.view(), places(d_begins.span().data()));
      kernel::add_positions_backward(d_sums.view(), d_dy.view(), places(d_begins.span().data()));
      {
        const computes_on host(nullptr);
        kernel::add_positions(x.view(), table.view(), places(begins.data()));
        kernel::add_positions_backward(sums.view(), dy.view(), places(begins.data()));
      }
      BOOST_TEST(d_x.back().same_as(x));
      BOOST_TEST(d_sums.back().same_as(sums));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(rotations_on_a_device, T, samples::all_elements) {
  enter<T>();
  for (const std::int64_t width : {2, 6, 64}) {
    for (const std::int64_t gap : {0, 3, 8}) {
      samples::matrix<T> x(10, 3 * width, "x");
      const auto angles = kernel::make_angles<wide<T>>(3, 5, width);
      const on_emulated device;
      const auto d_angles = kernel::make_angles<wide<T>>(3, 5, width);
      matrix<T> d_x(x, gap);
      kernel::rotate(d_x.view(), d_angles);
      {
        const computes_on host(nullptr);
        kernel::rotate(x.view(), angles);
      }
      BOOST_TEST(d_x.back().same_as(x));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(columns_sum_on_a_device, T, samples::all_elements) {
  enter<T>();
  for (const std::int64_t rows : {0, 1, 64, 200}) {
    for (const auto& [columns, gap] : sizes) {
      const samples::matrix<T> x(rows, columns, "x");
      auto sums = samples::numbers<wide<T>>(columns, "sums");
      const on_emulated device;
      matrix<T> d_x(x, gap);
      numbers<wide<T>> d_sums(sums), d_fresh(columns);
      kernel::column_sum(d_sums.span(), d_x.view());
      kernel::column_sum(d_fresh.span(), d_x.view(), kernel::output::overwrite);
      std::vector<wide<T>> fresh(sums.size());
      {
        const computes_on host(nullptr);
        kernel::column_sum(std::span(sums), x.view());
        kernel::column_sum(std::span(fresh), x.view(), kernel::output::overwrite);
      }
      BOOST_TEST((d_sums.back() == sums));
      BOOST_TEST((d_fresh.back() == fresh));
    }
  }
}

BOOST_AUTO_TEST_CASE(pairs_are_sorted_and_stay_in_order) {
  kernel::enter_emulated_services();
  std::vector<std::int32_t> keys, values;
  for (std::int32_t i = 0; i < 500; ++i) {
    keys.push_back(i * 37 % 11);
    values.push_back(i);
  }
  const on_emulated device;
  numbers<std::int32_t> d_keys(keys), d_values(values);
  kernel::sort_pairs(d_keys.span(), d_values.span(), 10);
  const auto sorted = d_keys.back();
  const auto places = d_values.back();
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    BOOST_TEST(sorted[i] == keys[static_cast<std::size_t>(places[i])]);
    if (i == 0) continue;
    BOOST_TEST(sorted[i - 1] <= sorted[i]);
    if (sorted[i - 1] == sorted[i]) BOOST_TEST(places[i - 1] < places[i]);
  }
}
