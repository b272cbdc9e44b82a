// SPDX-License-Identifier: Apache-2.0
#include "checked.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/pointwise.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/layer/residual.hpp"

namespace {

template <class S>
using feed_forward = chain<redistributed<axis::tensor, replicated>,
                           linear<dims<hidden>, dims<ffn>, cuts_of_weights, bias_use::with>,
                           pointwise<function::silu>, row_parallel<ffn, hidden, axis::tensor>,
                           redistributed<axis::tensor, S>>;
template <class S>
using block = residual<chain<rms_norm<hidden>, feed_forward<S>>>;

}  // namespace

BOOST_AUTO_TEST_CASE(chains_and_residuals) {
  check_layer<block<invariant>, stream<invariant>>();
  check_layer<block<sharded<sequence>>, stream<sharded<sequence>>>();
}
BOOST_AUTO_TEST_CASE(sums_of_branches) {
  check_layer<sum<linear<dims<hidden>, dims<ffn>, cuts_of_weights>,
                  linear<dims<hidden>, dims<ffn>, cuts_of_weights>>,
              stream<replicated>>();
}
BOOST_AUTO_TEST_CASE(repeated_blocks) {
  check_layer<repeat<2, block<sharded<sequence>>>, stream<sharded<sequence>>>();
}
