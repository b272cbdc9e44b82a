// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "moves.hpp"

using namespace tenon_test;

BOOST_AUTO_TEST_CASE(table_of_moves_fp32) { BOOST_TEST(check_table_everywhere<fp32>() == ""); }
BOOST_AUTO_TEST_CASE(table_of_moves_bf16) { BOOST_TEST(check_table_everywhere<bf16>() == ""); }
BOOST_AUTO_TEST_CASE(table_of_moves_int32) {
  BOOST_TEST(check_table_everywhere<std::int32_t>() == "");
}
