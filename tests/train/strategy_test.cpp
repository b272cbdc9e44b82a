// SPDX-License-Identifier: Apache-2.0
#include "tenon/parallel/strategy.hpp"

#include <boost/test/unit_test.hpp>

#include "refusal.hpp"
#include "tenon/model/placements.hpp"

using namespace tenon;

namespace {

// Policies in any order, with the defaults for what is not named.
static_assert(strategy<>::values() == run_strategy{});
static_assert(strategy<tensor_parallel<4, split_sequence>, data_parallel<2>>::values() ==
              run_strategy{.data = 2, .tensor = 4, .split_sequence = true});
static_assert(strategy<data_parallel<2>, tensor_parallel<4, split_sequence>>::values() ==
              strategy<tensor_parallel<4, split_sequence>, data_parallel<2>>::values());
static_assert(strategy<sums<sum_order::fixed>>::values() == run_strategy{.sums = sum_order::fixed});
static_assert(strategy<tensor_parallel<3>>::values() == run_strategy{.tensor = 3});
static_assert(strategy<expert_parallel<4>, data_parallel<2>>::values() ==
              run_strategy{.data = 2, .expert = 4});
static_assert(laid_out(strategy<expert_parallel<4>>::values(), 8) ==
              run_strategy{.data = 2, .expert = 4});
static_assert(strategy<expert_parallel<4>>::fixes<policy_kind::expert>);

static_assert(strategy<tensor_grid<3>>::values() == run_strategy{.tensor_grid = 3});
static_assert(strategy<tensor_grid<3>>::over({.tensor = 7, .split_sequence = true}) ==
              run_strategy{.tensor_grid = 3});
static_assert(laid_out({.tensor_grid = 3}, 18).data == 2 && ranks_needed({.tensor_grid = 3}) == 9);
using on_grid = decoder_placements<stream_state::grid>;
static_assert(on_grid::mesh_of({.data = 2, .tensor_grid = 3}, 15).coordinate<axis::data>() == 1);
static_assert(on_grid::mesh_of({.data = 2, .tensor_grid = 3}, 15).coordinate<axis::tensor_row>() ==
              2);
static_assert(
    on_grid::mesh_of({.data = 2, .tensor_grid = 3}, 16).coordinate<axis::tensor_column>() == 1);

static_assert(strategy<context_parallel<8>>::values() == run_strategy{.context = 8});
static_assert(strategy<context_parallel<8, exchange::ring, ring_window<4>>>::values() ==
              run_strategy{.context = 8, .ring_window = 4});
static_assert(strategy<context_parallel<8, exchange::ulysses>>::values() ==
              run_strategy{.context = 8, .heads_parallel = 8});
static_assert(
    strategy<context_parallel<8, tokens_in<token_order_kind::contiguous>, exchange::grid<2>>,
             data_parallel<2>>::values() ==
    run_strategy{
        .data = 2, .context = 8, .heads_parallel = 2, .order = token_order_kind::contiguous});

// What a policy fixes stands over what the run says; the rest is the run's.
static_assert(strategy<tensor_parallel<3>>::over(
                  {.data = 5, .tensor = 7, .split_sequence = true, .sums = sum_order::fixed}) ==
              run_strategy{.data = 5, .tensor = 3, .sums = sum_order::fixed});
static_assert(strategy<data_parallel<2>>::fixes<policy_kind::data>);
static_assert(!strategy<data_parallel<2>>::fixes<policy_kind::tensor>);

// A kind of a user's own needs nothing but itself.
struct my_kind {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two of mine were given; keep one");
  }
};
struct mine {
  using kind = my_kind;
  static constexpr void set(run_strategy& run) { run.data = 11; }
};
static_assert(strategy<mine, tensor_parallel<2>>::values() ==
              run_strategy{.data = 11, .tensor = 2});
static_assert(strategy_policy<mine> && !strategy_policy<int> && !strategy_policy<split_sequence>);

// Known extents are checked by the compiler, by the function that checks the flags.
static_assert(laid_out(strategy<tensor_parallel<4>>::values(), 8) ==
              run_strategy{.data = 2, .tensor = 4});
static_assert(laid_out({}, 1) == run_strategy{.data = 1, .tensor = 1});
static_assert(laid_out({.data = 3, .tensor = 5}, 15).data == 3);
static_assert(mesh_of(laid_out({.tensor = 4}, 8), 5).coordinate<axis::data>() == 1);
static_assert(mesh_of(laid_out({.tensor = 4}, 8), 5).coordinate<axis::tensor>() == 1);
static_assert(laid_out(strategy<context_parallel<4, exchange::grid<2>>>::values(), 8).data == 2);
static_assert(mesh_of(laid_out({.tensor = 2, .context = 4}, 16), 13).coordinate<axis::context>() ==
              2);
static_assert(ranks_needed({.data = 2147483647, .tensor = 2147483647}) == 4611686014132420609);

std::string refused(run_strategy run, int ranks) {
  return refusal_of([&] { laid_out(run, ranks); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(wrong_product_is_one_sentence) {
  BOOST_TEST(refused({.data = 2, .tensor = 32}, 8) ==
             "2: the strategy --data 2 --tensor 32 needs 64 ranks, and this run has 8; the product "
             "of all extents is the number of ranks; start it with mpirun -n 64, or type --data 1 "
             "--tensor 8");
  BOOST_TEST(refused({.tensor = 3}, 4) ==
             "2: the strategy --tensor 3 needs a multiple of 3 ranks, and this run has 4; the "
             "product of all extents is the number of ranks; start it with mpirun -n 3, or type "
             "--data 4 --tensor 1");
  BOOST_TEST(refused({.data = 1, .tensor = 1}, 4).find("needs 1 ranks, and this run has 4") !=
             std::string::npos);
  BOOST_TEST(refused({.data = 2147483647, .tensor = 2147483647}, 1)
                 .find("needs 4611686014132420609 ranks") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(extents_are_positive) {
  for (run_strategy run : {run_strategy{.data = -1}, run_strategy{.tensor = 0},
                           run_strategy{.data = -2, .tensor = -2}}) {
    BOOST_TEST(refused(run, 4).find("has an extent that is not positive") != std::string::npos);
  }
  BOOST_TEST(refused({}, 0) == "2: a run has 0 ranks; it has at least 1");
}

BOOST_AUTO_TEST_CASE(extents_of_attention_divide) {
  BOOST_TEST(refused({.context = 4, .heads_parallel = 3}, 4) ==
             "2: --heads-parallel 3 does not divide --context 4; that many ranks of the context "
             "axis exchange heads; type --heads-parallel 1");
  BOOST_TEST(refused({.context = 12, .heads_parallel = 2, .ring_window = 4}, 12) ==
             "2: --ring-window 4 does not divide the ring of 6 ranks (--context 12 over "
             "--heads-parallel 2); type --ring-window 2");
  BOOST_TEST(refused({.context = 2, .heads_parallel = 2, .ring_window = 2}, 2)
                 .find("does not divide the ring of 1 rank (") != std::string::npos);
  BOOST_TEST(refused({.context = 8, .heads_parallel = 0}, 8).find("type --heads-parallel 8") !=
             std::string::npos);
  BOOST_TEST(refused({.data = 1, .context = 3}, 4) ==
             "2: the strategy --data 1 --context 3 --tensor 1 needs 3 ranks, and this run has 4; "
             "the product of all extents is the number of ranks; start it with mpirun -n 3, or "
             "type --data 4 --tensor 1");
  BOOST_TEST(refused({.context = 8, .heads_parallel = 4}, 2)
                 .find("type --data 1 --context 2 --tensor 1 and neither --heads-parallel nor "
                       "--ring-window") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_grid_has_the_square_of_its_side) {
  BOOST_TEST(refused({.data = 1, .tensor_grid = 4}, 9) ==
             "2: the strategy --data 1 --tensor-grid 4 needs 16 ranks, and this run has 9; the "
             "product of all extents is the number of ranks; start it with mpirun -n 16, or type "
             "--data 1 --tensor-grid 3");
  BOOST_TEST(
      refused({.tensor_grid = 2, .context = 2}, 6).find("type --data 3 --context 2 --tensor 1") !=
      std::string::npos);
  BOOST_TEST(refused({.tensor_grid = 0}, 4).find("is not positive") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_suggested_is_accepted) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    for (int data = 0; data <= 6; ++data) {
      for (int tensor = 1; tensor <= 30; ++tensor) {
        const std::string said = refused({.data = data, .tensor = tensor}, ranks);
        if (said == "it was accepted") {
          const auto laid = laid_out({.data = data, .tensor = tensor}, ranks);
          BOOST_TEST(laid.data * laid.tensor == ranks);
          continue;
        }
        const std::size_t at = said.rfind("type --data ") + 12;
        const std::size_t next = said.rfind("--tensor ") + 9;
        const run_strategy typed{.data = std::stoi(said.substr(at)),
                                 .tensor = std::stoi(said.substr(next))};
        BOOST_TEST(refused(typed, ranks) == "it was accepted", said);
      }
    }
  }
}
