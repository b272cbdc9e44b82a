// SPDX-License-Identifier: Apache-2.0
//
// The same run in any layout: what the program logs on one rank and on several.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "program.hpp"

using programs::fresh_path;
using programs::logged_step;
using programs::tiny;

namespace {

struct spread {
  int ranks;
  const char* flags;
};

std::vector<logged_step> logged(int ranks, const std::string& flags) {
  const std::string log = fresh_path("log");
  const auto all = programs::run(ranks, flags + " --quiet --log " + log);
  BOOST_TEST(all.status == 0,
             flags << " on " << ranks << " ranks: status " << all.status << ", " << all.messages);
  return programs::read_log(log);
}

void compare(const std::string& flags, const std::vector<spread>& spreads, double bar) {
  const auto serial = logged(1, flags);
  BOOST_TEST_REQUIRE(serial.size() == 3U);
  BOOST_TEST(serial.front().loss > 5);
  BOOST_TEST(serial.back().loss != serial.front().loss);
  for (const spread& each : spreads) {
    BOOST_TEST_CONTEXT(flags << " " << each.flags) {
      const auto steps = logged(each.ranks, flags + " " + each.flags);
      BOOST_TEST_REQUIRE(steps.size() == serial.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        BOOST_TEST(steps[i].step == serial[i].step);
        BOOST_TEST(steps[i].tokens == serial[i].tokens);
        BOOST_TEST(steps[i].loss == serial[i].loss, boost::test_tools::tolerance(bar));
        BOOST_TEST(steps[i].gradient_norm == serial[i].gradient_norm,
                   boost::test_tools::tolerance(10 * bar));
      }
    }
  }
}

const std::vector<spread> all_spreads{{2, "--data 2"},
                                      {2, "--tensor 2"},
                                      {2, "--tensor 2 --split-sequence"},
                                      {4, "--data 4"},
                                      {4, "--tensor 4"},
                                      {4, "--tensor 4 --split-sequence"},
                                      {4, "--data 2 --tensor 2"},
                                      {4, "--data 2 --tensor 2 --split-sequence"}};
const std::vector<spread> mixed{{2, "--data 2 --microbatch 1"},
                                {4, "--data 2 --tensor 2"},
                                {4, "--data 2 --tensor 2 --split-sequence"}};
const std::vector<spread> both{{4, "--data 2 --tensor 2 --split-sequence"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(quick)

BOOST_AUTO_TEST_CASE(gpt2_fp64) { compare(tiny("--form gpt2 --precision fp64"), mixed, 1e-10); }
BOOST_AUTO_TEST_CASE(llama_fp64) { compare(tiny("--form llama --precision fp64"), mixed, 1e-10); }
BOOST_AUTO_TEST_CASE(gpt2_bf16) { compare(tiny("--form gpt2 --precision bf16"), both, 1e-2); }
BOOST_AUTO_TEST_CASE(llama_fp32) { compare(tiny("--form llama --precision fp32"), both, 1e-4); }

// Nothing divides: batch 3 over 2 ranks, 7 positions over 2, 3 heads over 2, one key-value head.
BOOST_AUTO_TEST_CASE(odd_sizes) {
  const std::string sizes =
      tiny("--layers 1 --hidden 12 --heads 3 --ffn 10 --sequence 7 --batch 3 --precision fp64");
  compare(sizes + " --form llama --kv-heads 1", {{2, "--tensor 2"}, both[0]}, 1e-10);
  compare(sizes + " --form gpt2", {{2, "--data 2"}, both[0]}, 1e-10);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(whole)

BOOST_AUTO_TEST_CASE(every_layout) {
  for (const std::string form : {"gpt2", "llama", "llama --kv-heads 2"}) {
    compare(tiny("--form " + form + " --precision fp64 --dropout 0.1"), all_spreads, 1e-10);
    compare(tiny("--form " + form + " --precision fp32"), all_spreads, 1e-4);
    compare(tiny("--form " + form + " --precision bf16"), all_spreads, 1e-2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
