// SPDX-License-Identifier: Apache-2.0
//
// What the program prints and logs, and that it learns.
#include <boost/test/unit_test.hpp>
#include <regex>
#include <string>
#include <vector>

#include "program.hpp"

using programs::fresh_path;
using programs::lines_with;
using programs::tiny;

namespace {

// A number with commas or spaces between its digits' groups.
std::vector<std::int64_t> numbers_in(const std::string& line) {
  static const std::regex number("[0-9]+(,[0-9]{3})*");
  std::vector<std::int64_t> all;
  for (std::sregex_iterator i(line.begin(), line.end(), number), end; i != end; ++i) {
    std::string digits = i->str();
    std::erase(digits, ',');
    all.push_back(std::stoll(digits));
  }
  return all;
}

// What the tables say was predicted is what was counted.
void check_tables(const programs::outcome& all, bool sends) {
  const auto memory = lines_with(all.output, "memory of the fullest rank");
  BOOST_TEST_REQUIRE(memory.size() == 1U);
  const auto bytes = numbers_in(memory[0]);
  BOOST_TEST_REQUIRE(bytes.size() == 2U, memory[0]);
  BOOST_TEST(bytes[0] > 0);
  BOOST_TEST(bytes[0] == bytes[1], memory[0]);

  std::int64_t rows = 0;
  static const std::regex row("(data|tensor) +[a-z_]+ +[a-z]+ +([0-9,]+) +([0-9,]+) +([0-9,]+) .*");
  for (const std::string& line : lines_with(all.output, "  ")) {
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    ++rows;
    BOOST_TEST(found[3].str() == found[4].str(), line);
    BOOST_TEST(found[2].str() != "0", line);
  }
  BOOST_TEST((rows > 0) == sends, all.output);
  BOOST_TEST((lines_with(all.output, "ledger: nothing was sent").size() == 1U) == !sends);
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_without_a_launcher) {
  const auto all = programs::run(0, tiny());
  BOOST_TEST(all.status == 0, all.messages);
  check_tables(all, false);
  // A progress line is shown at most so often, and always for the first and the last step.
  BOOST_TEST(lines_with(all.output, "step 1/3  loss ").size() == 1U, all.output);
  BOOST_TEST(lines_with(all.output, "step 3/3  loss ").size() == 1U, all.output);
  BOOST_TEST(all.output.find('\r') == std::string::npos);
  BOOST_TEST(all.output.find('\033') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(predicted_equals_counted) {
  check_tables(programs::run(2, tiny("--form gpt2 --data 2")), true);
  check_tables(programs::run(4, tiny("--tensor 2 --split-sequence --microbatch 1")), true);
  check_tables(programs::run(4, tiny("--form gpt2 --tensor 4 --batch 3 --sequence 7")), true);
}

BOOST_AUTO_TEST_CASE(log_is_complete) {
  const std::string log = fresh_path("log");
  BOOST_TEST(programs::run(4, tiny("--data 2 --tensor 2 --log " + log)).status == 0);
  const auto steps = programs::read_log(log);
  BOOST_TEST_REQUIRE(steps.size() == 3U);
  const std::vector<std::string> fields{
      "bytes", "collective_seconds", "gradient_norm", "loss",
      "step",  "step_seconds",       "tokens",        "tokens_per_second"};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    BOOST_TEST(step.fields == fields, boost::test_tools::per_element());
    BOOST_TEST(step.step == static_cast<std::int64_t>(i) + 1);
    BOOST_TEST(step.tokens == 4 * 8);
    BOOST_TEST(step.gradient_norm > 0);
    BOOST_TEST(step.step_seconds > 0);
    BOOST_TEST(step.tokens_per_second * step.step_seconds == 32.0,
               boost::test_tools::tolerance(1e-9));
    BOOST_TEST(step.collective_seconds > 0);
    BOOST_TEST(step.collective_seconds <= step.step_seconds);
    BOOST_TEST_REQUIRE(step.bytes.size() == 3U);
    BOOST_TEST(step.bytes.at("all") > 0);  // the norm of the gradient
    BOOST_TEST(step.bytes.at("data") > 0);
    BOOST_TEST(step.bytes.at("tensor") > 0);
    BOOST_TEST(step.bytes.at("data") == steps[0].bytes.at("data"));
  }
}

BOOST_AUTO_TEST_CASE(quiet_prints_the_sample_alone) {
  const auto silent = programs::run(2, tiny("--quiet"));
  BOOST_TEST(silent.status == 0);
  BOOST_TEST(silent.output == "");
  const auto sampled = programs::run(2, tiny("--quiet --sample 20"));
  BOOST_TEST(sampled.status == 0);
  BOOST_TEST(sampled.output.find("\nsample") == 0U, sampled.output);
  BOOST_TEST(lines_with(sampled.output, "loss").empty(), sampled.output);
}

BOOST_AUTO_TEST_CASE(the_sample_is_the_same_in_every_layout) {
  const std::string flags = tiny("--quiet --precision fp64 --sample 40");
  const auto serial = programs::run(1, flags);
  BOOST_TEST(serial.output.size() > 40U);
  BOOST_TEST(programs::run(4, flags + " --data 2 --tensor 2 --split-sequence").output ==
             serial.output);
}

BOOST_AUTO_TEST_CASE(profile) {
  const auto all = programs::run(2, tiny("--profile"));
  BOOST_TEST(all.status == 0);
  for (const char* part :
       {"forward and backward", "reduction of gradients", "norm and optimizer", "GFLOP/s"}) {
    BOOST_TEST(lines_with(all.output, part).size() == 1U, all.output);
  }
}

BOOST_AUTO_TEST_CASE(help_and_version) {
  const auto help = programs::run(2, "--help");
  BOOST_TEST(help.status == 0);
  BOOST_TEST(lines_with(help.output, "--split-sequence").size() == 1U, help.output);
  const auto version = programs::run(2, "--version");
  BOOST_TEST(version.status == 0);
  BOOST_TEST(lines_with(version.output, "pretrain_decoder, tenon ").size() == 1U, version.output);
}

BOOST_AUTO_TEST_CASE(more_threads_than_cores) {
  const auto all = programs::run(1, tiny("--steps 1 --threads 999"));
  BOOST_TEST(all.status == 0);
  BOOST_TEST(lines_with(all.messages, "--threads 999 was asked for and a rank has").size() == 1U,
             all.messages);
  BOOST_TEST(lines_with(programs::run(1, tiny("--steps 1")).messages, "--threads").empty());
}

BOOST_AUTO_TEST_CASE(too_few_slots) {
  if (!programs::is_open_mpi()) return;
  const auto all = programs::run_behind("env -u OMPI_MCA_rmaps_base_oversubscribe " +
                                            programs::launcher() + " 4096 --nooversubscribe",
                                        "--help");
  BOOST_TEST(all.status == 1);
  BOOST_TEST(!lines_with(all.messages, "not enough slots").empty(), all.messages);
}

BOOST_AUTO_TEST_CASE(learning_is_real) {
  for (const char* form : {"gpt2", "llama"}) {
    const std::string log = fresh_path("log");
    const auto all = programs::run(
        2, "--text " + programs::text_file() + " --form " + form +
               " --layers 2 --hidden 64 --heads 4 --sequence 64 --batch 8 --steps 120 --warmup 10 "
               "--learning-rate 5e-3 --sample 0 --threads 1 --quiet --log " +
               log);
    BOOST_TEST(all.status == 0);
    const auto steps = programs::read_log(log);
    BOOST_TEST_REQUIRE(steps.size() == 120U);
    BOOST_TEST(steps.front().loss > 5.3);
    BOOST_TEST(steps.back().loss < 2.6, form << ": " << steps.back().loss);
  }
}
