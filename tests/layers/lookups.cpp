// SPDX-License-Identifier: Apache-2.0
#include "checked.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/embedding.hpp"
#include "tenon/layer/redistributed.hpp"

namespace {

template <class S>
using token_numbers =
    tenon::tensor<std::int32_t, dims<batch, sequence>,
                  constant<placement<on<axis::data, sharded<batch>>, on<axis::tensor, S>>>>;
constexpr gradient_check_options eleven{.tokens_below = 11};
template <class Assignment>
using table = embedding<fp64, "table", vocabulary, hidden, Assignment>;

}  // namespace

BOOST_AUTO_TEST_CASE(rows_of_a_cut_table) {
  check_layer<table<cuts_of_weights>, token_numbers<invariant>>(eleven);
}
BOOST_AUTO_TEST_CASE(rows_of_a_whole_table) {
  check_layer<table<assignment<>>, token_numbers<invariant>>(eleven);
  check_layer<table<assignment<>>, token_numbers<sharded<sequence>>>(eleven);
}
BOOST_AUTO_TEST_CASE(positions_learned) {
  check_layer<learned_positions<"positions", hidden>, stream<invariant>>();
  check_layer<learned_positions<"positions", hidden>, stream<sharded<sequence>>>();
}
BOOST_AUTO_TEST_CASE(logits_of_a_cut_vocabulary) {
  check_layer<table_projection<"head", vocabulary, hidden, cuts_of_weights>, stream<replicated>>();
}
BOOST_AUTO_TEST_CASE(a_tied_table_gets_both_gradients) {
  check_layer<chain<table<cuts_of_weights>, redistributed<axis::tensor, sharded<sequence>>,
                    redistributed<axis::tensor, replicated>,
                    table_projection<"table", vocabulary, hidden, cuts_of_weights>>,
              token_numbers<invariant>>(eleven);
}
