// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "refusal.hpp"
#include "tenon/train/learning_rate.hpp"
#include "tenon/train/progress.hpp"
#include "tenon/train/table.hpp"

using namespace tenon;

BOOST_AUTO_TEST_CASE(the_rate_rises_then_falls_to_a_tenth) {
  const learning_rate_schedule rate{.peak = 2e-3, .warmup = 4, .steps = 12};
  BOOST_TEST(rate.at(0) == 0.5e-3);
  BOOST_TEST(rate.at(1) == 1e-3);
  BOOST_TEST(rate.at(3) == 2e-3);
  // Half of the way down: between peak and floor. A quarter: by cos(pi / 4).
  BOOST_TEST(std::abs(rate.at(7) - 1.1e-3) < 1e-15);
  BOOST_TEST(std::abs(rate.at(5) - (0.2e-3 + 1.8e-3 * 0.5 * (1 + std::sqrt(0.5)))) < 1e-15);
  BOOST_TEST(rate.at(11) == 0.2e-3);
  BOOST_TEST(rate.at(12) == 0.2e-3);
  BOOST_TEST(rate.at(1'000'000'000'000) == 0.2e-3);
  for (std::int64_t step = 4; step < 12; ++step) BOOST_TEST(rate.at(step) < rate.at(step - 1));
}

BOOST_AUTO_TEST_CASE(the_rate_of_short_runs) {
  const learning_rate_schedule none{.peak = 1, .warmup = 0, .steps = 2};
  BOOST_TEST(std::abs(none.at(0) - 0.55) < 1e-15);
  BOOST_TEST(none.at(1) == 0.1);
  BOOST_TEST((learning_rate_schedule{.peak = 1, .warmup = 0, .steps = 1}.at(0)) == 0.1);
  const learning_rate_schedule cut{.peak = 1, .warmup = 20, .steps = 5};
  BOOST_TEST(cut.at(4) == 0.25);
  const learning_rate_schedule all{.peak = 1, .warmup = 5, .steps = 5};
  BOOST_TEST(all.at(4) == 1);
  BOOST_TEST(all.at(5) == 0.1);
}

BOOST_AUTO_TEST_CASE(a_progress_line_says_it_all) {
  progress shown(200, 1);
  const step_record first{.step = 1,
                          .loss = 5.54518,
                          .gradient_norm = 1.25,
                          .tokens = 4096,
                          .step_seconds = 0.5,
                          .tokens_per_second = 8192.4,
                          .collective_seconds = 0.0615};
  BOOST_TEST(shown.add(first));
  BOOST_TEST(shown.line(first) ==
             "step   1/200  loss 5.5452  gradient norm 1.250  8192 tokens/s  collectives 12.3 %  "
             "left 1 min 40 s\n");
}

BOOST_AUTO_TEST_CASE(lines_are_due_first_last_and_at_intervals) {
  progress shown(9, 1);
  std::string due;
  for (std::int64_t step = 1; step <= 9; ++step) {
    due += shown.add({.step = step, .step_seconds = 0.375}) ? 'x' : '.';
  }
  BOOST_TEST(due == "x..x..x.x");
  progress every(3, 0);
  for (std::int64_t step = 1; step <= 3; ++step) BOOST_TEST(every.add({.step = step}));
  progress one(1);
  BOOST_TEST(one.add({.step = 1}));
}

BOOST_AUTO_TEST_CASE(time_left_forgets_the_first_step) {
  progress shown(102);
  shown.add({.step = 1, .step_seconds = 50});
  shown.add({.step = 2, .step_seconds = 2});
  BOOST_TEST(shown.seconds_left(2) == 200);
  shown.add({.step = 3, .step_seconds = 3});
  BOOST_TEST(std::abs(shown.seconds_left(3) - 99 * 2.1) < 1e-9);
  BOOST_TEST(shown.seconds_left(102) == 0);
  BOOST_TEST(shown.seconds_left(500) == 0);
}

BOOST_AUTO_TEST_CASE(a_line_is_plain_whatever_the_numbers) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const progress shown(5);
  const step_record records[] = {
      {.step = 1, .loss = nan, .gradient_norm = infinity, .tokens_per_second = infinity},
      {.step = 2, .loss = -1e300, .step_seconds = 0, .collective_seconds = 1},
      {.step = 3, .step_seconds = nan, .tokens_per_second = nan, .collective_seconds = nan}};
  for (const step_record& record : records) {
    const std::string line = shown.line(record);
    BOOST_TEST(line.find_first_of("\r\033\t") == std::string::npos);
    BOOST_TEST(line.find('\n') == line.size() - 1);
  }
  BOOST_TEST(shown.line(records[0]).find("loss nan  gradient norm inf  inf tokens/s") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(lines_are_written_out) {
  std::FILE* out = std::tmpfile();
  BOOST_REQUIRE(out != nullptr);
  progress shown(3, 100);
  for (std::int64_t step = 1; step <= 3; ++step) {
    shown.show(out, {.step = step, .loss = 2, .step_seconds = 1});
  }
  std::rewind(out);
  char text[1000];
  const std::size_t got = std::fread(text, 1, sizeof text, out);
  std::fclose(out);
  const std::string all(text, got);
  BOOST_TEST(all.find("step 1/3  loss 2.0000") == 0U);
  BOOST_TEST(all.find("step 2/3") == std::string::npos);
  BOOST_TEST(all.find("\nstep 3/3  loss 2.0000") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(durations) {
  BOOST_TEST(human_seconds(0) == "0 s");
  BOOST_TEST(human_seconds(59.4) == "59 s");
  BOOST_TEST(human_seconds(59.6) == "1 min 00 s");
  BOOST_TEST(human_seconds(185) == "3 min 05 s");
  BOOST_TEST(human_seconds(7620) == "2 h 07 min");
  BOOST_TEST(human_seconds(86400 * 3 + 3600 * 4) == "3 d 04 h");
  BOOST_TEST(human_seconds(1e30) == "years");
  BOOST_TEST(human_seconds(-1) == "?");
  BOOST_TEST(human_seconds(std::nan("")) == "?");
}

BOOST_AUTO_TEST_CASE(tables_are_aligned) {
  text_table ledger({{"axis"}, {"calls", column_side::right}, {"bytes", column_side::right}});
  ledger.row({"data", "12", "1.5 MB"}).row({"tensor", "1,200", "512 B"}).row({"none"});
  BOOST_TEST(ledger.text() ==
             "axis    calls   bytes\n"
             "data       12  1.5 MB\n"
             "tensor  1,200   512 B\n"
             "none\n");
  text_table plain({{""}, {""}});
  plain.row({"parameters", "124,439,808"}).row({"mesh", "data 2 x tensor 2"});
  BOOST_TEST(plain.text() ==
             "parameters  124,439,808\n"
             "mesh        data 2 x tensor 2\n");
  BOOST_TEST(text_table({{"a"}, {"b"}}).text() == "a  b\n");
  BOOST_TEST(text_table({}).row({}).text() == "\n");
  BOOST_TEST(refusal_of([&] {
               plain.row({"a", "b", "c"});
             }) ==
             "2: table: a row of 3 cells was given to 2 columns; give at most one cell a column");
}
