// SPDX-License-Identifier: Apache-2.0
// Backward of experts against finite differences. The choices of tokens are far from ties: moving
// a value by the step of the differences changes none.
#include "experts.hpp"

namespace {

template <expert_form Form, class Mesh>
void check_experts(const Mesh& grid, std::int64_t number, std::int64_t chosen) {
  const gradient_report found = gradient_check<experts_of<Form>, entered<fp64, Mesh>>(
      grid, expert_sizes(number, chosen), {.elements = 3});
  BOOST_TEST_CONTEXT(grid.text() << ", " << chosen << " of " << number << " experts\n"
                                 << found.text()) {
    BOOST_TEST(!found.all.empty());
    BOOST_TEST(found.largest() < 1e-6);
  }
}

template <expert_form Form>
void check_on_meshes() {
  for (const int expert : {1, 2, 3}) {
    for (const int tensor : {1, 2}) {
      check_experts<Form>(expert_mesh({1, expert, tensor}), 5, 2);
    }
  }
  check_experts<Form>(expert_mesh({2, 2, 2}), 5, 2);
  check_experts<Form>(expert_mesh({2, 3, 1}), 5, 2);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gelu) { check_on_meshes<expert_form::gelu>(); }
BOOST_AUTO_TEST_CASE(swiglu) { check_on_meshes<expert_form::swiglu>(); }

BOOST_AUTO_TEST_CASE(fewer_experts_than_ranks) {
  check_experts<expert_form::swiglu>(expert_mesh({1, 3, 1}), 2, 1);
  check_experts<expert_form::gelu>(expert_mesh({1, 4, 2}), 3, 2);
}
// Thirty tokens' choices of 40 experts leave some that nobody chose.
BOOST_AUTO_TEST_CASE(experts_that_no_token_chose) {
  check_experts<expert_form::gelu>(expert_mesh({1, 2, 1}), 40, 1);
}
BOOST_AUTO_TEST_CASE(all_experts_are_chosen) {
  check_experts<expert_form::swiglu>(expert_mesh({1, 2, 2}), 3, 3);
  check_experts<expert_form::gelu>(expert_mesh({1, 1, 1}), 1, 1);
}
BOOST_AUTO_TEST_CASE(more_ranks_than_sequences) {
  check_experts<expert_form::gelu>(expert_mesh({2, 4, 1}), 5, 2);
}
BOOST_AUTO_TEST_CASE(cut_sequences) {
  check_experts<expert_form::swiglu>(four_axes({1, 2, 2, 2}), 5, 2);
}
