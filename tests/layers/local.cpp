// SPDX-License-Identifier: Apache-2.0
#include "checked.hpp"
#include "tenon/layer/dropout.hpp"
#include "tenon/layer/feed_forward.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/pointwise.hpp"

BOOST_AUTO_TEST_CASE(norms) {
  check_layer<layer_norm<hidden>, stream<invariant>>();
  check_layer<layer_norm<hidden>, stream<sharded<sequence>>>();
  check_layer<rms_norm<hidden>, stream<invariant>>();
  check_layer<rms_norm<hidden>, stream<sharded<sequence>>>();
}
BOOST_AUTO_TEST_CASE(softmax_of_the_last_dim) {
  check_layer<softmax<hidden>, stream<sharded<sequence>>>();
}
BOOST_AUTO_TEST_CASE(functions_of_one_value) {
  check_layer<pointwise<function::gelu>, tokens_of<sharded<ffn>, ffn>>();
  check_layer<pointwise<function::silu>, stream<replicated>>();
}
BOOST_AUTO_TEST_CASE(swiglu_of_a_pair) {
  using one = tokens_of<sharded<ffn>, ffn>;
  check_layer<swiglu, std::tuple<one, one>>();
}
BOOST_AUTO_TEST_CASE(biases) {
  check_layer<bias<dims<hidden>>, stream<invariant>>();
  check_layer<bias<dims<hidden>>, stream<sharded<sequence>>>();
  check_layer<bias<dims<ffn>>, tokens_of<sharded<ffn>, ffn>>();
}
BOOST_AUTO_TEST_CASE(dropped_values_have_no_slope) {
  check_layer<dropout, stream<invariant>>({.dropout = 0.5});
  check_layer<dropout, stream<sharded<sequence>>>({.dropout = 0.5});
}
