// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/linear.hpp"

#include "checked.hpp"

BOOST_AUTO_TEST_CASE(column_parallel_with_a_bias) {
  check_layer<linear<dims<hidden>, dims<ffn>, cuts_of_weights, bias_use::with>,
              stream<replicated>>();
}
BOOST_AUTO_TEST_CASE(row_parallel_leaves_a_sum) {
  check_layer<row_parallel<ffn, hidden, axis::tensor>, tokens_of<sharded<ffn>, ffn>>();
}
BOOST_AUTO_TEST_CASE(whole_weights_beside_a_cut_sequence) {
  check_layer<linear<dims<hidden>, dims<ffn>, assignment<>, bias_use::with>,
              stream<sharded<sequence>>>();
}
BOOST_AUTO_TEST_CASE(whole_weights_beside_invariant_tokens) {
  check_layer<linear<dims<hidden>, dims<ffn>, assignment<>, bias_use::with>, stream<invariant>>();
}
BOOST_AUTO_TEST_CASE(a_product_of_a_sum) {
  check_layer<linear<dims<hidden>, dims<ffn>>, stream<partial>>();
}
BOOST_AUTO_TEST_CASE(heads_with_fewer_kv_heads) {
  check_layer<projections<dims<hidden>, cuts_of_weights,
                          projection<"query", dims<heads, head_width>, bias_use::with>,
                          projection<"key", dims<kv_heads, head_width>, bias_use::with>,
                          projection<"value", dims<kv_heads, head_width>>>,
              stream<replicated>>();
}
