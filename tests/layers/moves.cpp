// SPDX-License-Identifier: Apache-2.0
// Every move of the table, with its backward.
#include "checked.hpp"
#include "tenon/layer/redistributed.hpp"

namespace {

using rows = sharded<sequence>;
using columns = sharded<hidden>;

template <class From, class... Tos>
void check_moves() {
  (check_layer<redistributed<axis::tensor, Tos>, stream<From>>(), ...);
}

}  // namespace

BOOST_AUTO_TEST_CASE(from_a_cut) { check_moves<rows, columns, replicated, invariant, partial>(); }
BOOST_AUTO_TEST_CASE(from_a_sum) { check_moves<partial, rows, columns, replicated, invariant>(); }
BOOST_AUTO_TEST_CASE(from_replicated) {
  check_moves<replicated, rows, columns, partial, invariant, replicated>();
}
BOOST_AUTO_TEST_CASE(from_invariant) {
  check_moves<invariant, rows, columns, partial, replicated>();
}
