// SPDX-License-Identifier: Apache-2.0
// What experts send: predicted where types and shapes say it, bounded where the tokens do, and
// counted against what the tokens chose.
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "experts.hpp"

namespace {

struct sent_by_rank {
  std::vector<std::int64_t> counts;  // [ranks of the expert axis, experts]
  dispatch_bytes of_choices;
  std::map<std::string, std::int64_t> counted;  // "expert all_to_all forward"
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> predicted;  // balanced, most
  std::vector<std::string> varying;
};

template <element E, class Mesh>
std::vector<sent_by_rank> sent_on(const Mesh& grid, std::int64_t number, std::int64_t chosen) {
  std::vector<sent_by_rank> all(static_cast<std::size_t>(grid.size()));
  simulate(grid.size(), [&](std::unique_ptr<transport> world) {
    using input = entered<E, Mesh>;
    using layer = bound_to<experts_of<expert_form::swiglu>, input>;
    sent_by_rank& mine = all[static_cast<std::size_t>(world->rank())];
    ranks<Mesh> group(std::move(world), grid);
    const auto sizes = expert_sizes(number, chosen);
    const run_state state;
    shared_parameters shared;
    layer experts_here(layer_context<Mesh>{group, sizes, state, shared, "layer"});
    experts_here.for_each_parameter([&](auto& p) {
      p.place_gradient(std::make_shared<buffer<wide<E>>>(p.owned_elements()), 0);
      p.begin_step();
      p.initialise(1);
    });
    prices_on<Mesh> prices(group.grid());
    prices.add(typename layer::forward_transfers{}, sizes, "forward");
    prices.add(typename layer::backward_transfers{}, sizes, "backward");
    group.ledger().restart();
    input x(group, sizes.of(dims<batch, sequence, hidden>{}));
    fill_normal(x, random_stream(3, "x"), 1);
    group.ledger().set_phase("forward");
    auto [y, saved] = experts_here.forward(std::move(x));
    mine.counts.assign(saved.way.counts().begin(), saved.way.counts().end());
    const int ranks_here = grid.template extent<axis::expert>();
    mine.of_choices = bytes_of_dispatch(mine.counts, partition::balanced(number, ranks_here),
                                        group.grid().template coordinate<axis::expert>(),
                                        6 * static_cast<std::int64_t>(sizeof(E)));
    auto gradient =
        gradient_of_value<typename layer::output_type>::zeros(group, gradient_layout(y.where()));
    group.ledger().set_phase("backward");
    experts_here.backward(std::move(gradient), std::move(saved));
    for (const auto& [key, row] : group.ledger().rows()) {
      mine.counted[key.axis + " " + key.call + " " + key.phase] = row.bytes;
    }
    for (const auto& [key, row] : prices.rows()) {
      const auto name = std::get<0>(key) + " " + std::get<1>(key) + " " + std::get<2>(key);
      mine.predicted[name] = {row.bytes, row.most};
      if (row.varies) mine.varying.push_back(name);
    }
  });
  return all;
}

template <element E, class Mesh>
void check_traffic(const Mesh& grid, std::int64_t number, std::int64_t chosen) {
  const auto all = sent_on<E>(grid, number, chosen);
  const std::vector<std::string> varying{"expert all_to_all backward", "expert all_to_all forward"};
  std::int64_t rows = 0;
  for (const sent_by_rank& mine : all) {
    BOOST_TEST(mine.varying == varying, boost::test_tools::per_element());
    BOOST_TEST(mine.counted.size() == mine.predicted.size());
    for (const auto& [name, bytes] : mine.counted) {
      BOOST_TEST_CONTEXT(grid.text() << ": " << name) {
        BOOST_REQUIRE(mine.predicted.count(name) == 1u);
        const auto [balanced, most] = mine.predicted.at(name);
        BOOST_TEST(bytes <= most);
        if (name.find("expert all_to_all") == 0) {
          BOOST_TEST(bytes == mine.of_choices.dispatch + mine.of_choices.back);
          if (chosen == number) BOOST_TEST(bytes == most);
          if (chosen == number) BOOST_TEST(bytes == balanced);
        } else {
          BOOST_TEST(bytes == balanced);
          BOOST_TEST(bytes == most);
        }
      }
    }
    for (const std::int64_t count : mine.counts) rows += count;
  }
  // Every choice of every token is in the table of all ranks of its line.
  const std::int64_t others =
      grid.template extent<axis::expert>() * grid.template extent<axis::tensor>();
  BOOST_TEST(rows == 5 * 3 * chosen * others);
}

}  // namespace

BOOST_AUTO_TEST_CASE(counted_is_what_tokens_chose) {
  check_traffic<fp64>(expert_mesh({1, 2, 1}), 5, 2);
  check_traffic<fp32>(expert_mesh({2, 3, 1}), 5, 2);
  check_traffic<bf16>(expert_mesh({1, 4, 2}), 3, 1);
  check_traffic<fp64>(four_axes({1, 2, 2, 2}), 5, 2);
}
BOOST_AUTO_TEST_CASE(where_all_are_chosen_the_prediction_is_exact) {
  check_traffic<fp64>(expert_mesh({1, 3, 1}), 4, 4);
  check_traffic<bf16>(four_axes({2, 2, 2, 1}), 3, 3);
}
