// SPDX-License-Identifier: Apache-2.0
// T-42: every collective, element, length, cut, in place or not, started or not, on simulated
// ranks; results against a serial loop, and counted == copied == the rule's bytes.
#include "checks.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tenon/communicate/simulated.hpp"

using namespace tenon_test;

namespace {

void run(int ranks, const std::vector<std::int64_t>& lengths, const simulated_options& options,
         bool compare) {
  simulate(
      ranks,
      [&](std::unique_ptr<transport> world) {
        ledger book;
        communicator group(std::move(world), "data", book, {.compare_every_call = compare});
        for (const std::int64_t length : lengths) check_every_collective(group, length);
        group.compare();
      },
      options);
}

}  // namespace

BOOST_DATA_TEST_CASE(collectives_equal_a_serial_loop,
                     boost::unit_test::data::make({1, 2, 3, 4, 5, 7, 8}), ranks) {
  run(ranks, {0, 1, 17}, {}, false);
}

BOOST_DATA_TEST_CASE(a_low_count_limit_changes_nothing, boost::unit_test::data::make({1, 2, 3}),
                     ranks) {
  run(ranks, {20}, {.count_limit = 7}, false);
}

BOOST_AUTO_TEST_CASE(comparing_before_every_call_changes_nothing) { run(3, {0, 17}, {}, true); }
