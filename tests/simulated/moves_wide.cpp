// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "moves.hpp"

using namespace tenon_test;

BOOST_AUTO_TEST_CASE(table_of_moves_fp64) { BOOST_TEST(check_table_everywhere<fp64>() == ""); }
BOOST_AUTO_TEST_CASE(table_of_moves_int64) {
  BOOST_TEST(check_table_everywhere<std::int64_t>() == "");
}
