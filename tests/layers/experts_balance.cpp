// SPDX-License-Identifier: Apache-2.0
// The balancing loss against its definition in plain loops, and its gradient against differences of
// it, alike on all meshes. The fractions are constant between changes of a choice, so the slope of
// the loss itself is the gradient with the fractions held.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "experts.hpp"
#include "tenon/communicate/all_reduce.hpp"

namespace {

constexpr std::int64_t sequences = 5, length = 3, width = 6, number = 5, chosen = 2;

struct balance_outcome {
  double loss = 0;               // of all sequences
  std::vector<double> gradient;  // of the router's weight, whole
};

// The rank's values as one rank has them: x and the router's weight by global index.
double token_value(std::int64_t i) { return random_stream(3, "x").normal(i); }

std::vector<double> router_weight() {
  std::vector<double> all(width * number);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = 0.5 * random_stream(1, "layer.router.weight").normal(static_cast<std::int64_t>(i));
  }
  return all;
}

template <class Mesh>
balance_outcome balance_on(const Mesh& grid, const std::vector<double>& weight, double scale) {
  balance_outcome outcome;
  simulate(grid.size(), [&](std::unique_ptr<transport> world) {
    using input = entered<fp64, Mesh>;
    using layer = bound_to<experts_of<expert_form::gelu>, input>;
    ranks<Mesh> group(std::move(world), grid);
    const auto sizes = expert_sizes(number, chosen);
    run_state state;
    state.balance_scale = scale;
    shared_parameters shared;
    layer experts_here(layer_context<Mesh>{group, sizes, state, shared, "layer"});
    std::vector<double> mine;
    std::vector<communicator*> lines;
    any_parameter<fp64>* router = nullptr;
    experts_here.for_each_parameter([&](auto& p) {
      any_parameter<fp64>& any = p;
      any.place_gradient(std::make_shared<buffer<fp64>>(any.owned_elements()), 0);
      any.begin_step();
      any.initialise(1);
      if (router == nullptr) router = &any;
    });
    std::copy(weight.begin(), weight.end(), router->owned_values().begin());
    router->publish();
    input x(group, shape<dims<batch, sequence, hidden>>{sequences, length, width});
    for_each_global_index(x, [](double& value, std::int64_t i) { value = token_value(i); });
    auto [y, saved] = experts_here.forward(x);
    auto nothing =
        gradient_of_value<typename layer::output_type>::zeros(group, gradient_layout(y.where()));
    experts_here.backward(std::move(nothing), std::move(saved));
    if (communicator* line = router->lines({}).rest) {
      communicate::all_reduce(*line, router->owned_gradient());
    }
    double sum = state.balance_sum;
    for_each_axis(std::type_identity<Mesh>{}, [&]<class A>(A) {
      if constexpr (is_sharded<state_on_t<typename input::placement_type, A>>) {
        communicate::all_reduce(group.template on<A>(), std::span<double>(&sum, 1));
      }
    });
    if (group.rank() == grid.size() - 1) {
      const auto found = router->owned_gradient();
      outcome = {sum, {found.begin(), found.end()}};
    }
  });
  return outcome;
}

// The definition, token by token.
double balance_by_loops(const std::vector<double>& weight) {
  double loss = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    std::vector<double> f(number), p(number);
    for (std::int64_t t = 0; t < length; ++t) {
      std::vector<double> logits(number);
      for (std::int64_t e = 0; e < number; ++e) {
        for (std::int64_t h = 0; h < width; ++h) {
          logits[static_cast<std::size_t>(e)] += token_value((s * length + t) * width + h) *
                                                 weight[static_cast<std::size_t>(h * number + e)];
        }
      }
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      for (std::size_t e = 0; e < p.size(); ++e) p[e] += std::exp(logits[e]) / sum / length;
      std::vector<std::size_t> order(number);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
      for (std::int64_t i = 0; i < chosen; ++i) {
        f[order[static_cast<std::size_t>(i)]] += double{number} / (double{chosen} * length);
      }
    }
    for (std::size_t e = 0; e < f.size(); ++e) loss += f[e] * p[e];
  }
  return loss;
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_what_it_is_defined_as_on_all_meshes) {
  const auto weight = router_weight();
  const double right = balance_by_loops(weight);
  BOOST_TEST(right > sequences);  // 1 a sequence if balanced
  const balance_outcome serial = balance_on(expert_mesh({1, 1, 1}), weight, 0.7);
  BOOST_TEST(std::abs(serial.loss - right) < 1e-12);
  const auto same = [&](const balance_outcome& other) {
    BOOST_TEST(std::abs(other.loss - right) < 1e-12);
    BOOST_REQUIRE(other.gradient.size() == serial.gradient.size());
    for (std::size_t i = 0; i < serial.gradient.size(); ++i) {
      BOOST_TEST(std::abs(other.gradient[i] - serial.gradient[i]) < 1e-12);
    }
  };
  same(balance_on(expert_mesh({2, 1, 1}), weight, 0.7));
  same(balance_on(expert_mesh({1, 3, 2}), weight, 0.7));
  same(balance_on(expert_mesh({2, 4, 1}), weight, 0.7));
  same(balance_on(four_axes({1, 1, 2, 1}), weight, 0.7));
  same(balance_on(four_axes({1, 2, 4, 2}), weight, 0.7));
}

BOOST_AUTO_TEST_CASE(its_gradient_is_its_slope) {
  const auto weight = router_weight();
  const expert_mesh one({1, 1, 1});
  const balance_outcome here = balance_on(one, weight, 0.7);
  BOOST_REQUIRE(here.gradient.size() == weight.size());
  double largest = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const double step = 1e-6;
    auto moved = weight;
    moved[i] += step;
    const double above = balance_by_loops(moved);
    moved[i] -= 2 * step;
    const double slope = 0.7 * (above - balance_by_loops(moved)) / (2 * step);
    BOOST_TEST(std::abs(slope - here.gradient[i]) < 1e-7);
    largest = std::max(largest, std::abs(slope));
  }
  BOOST_TEST(largest > 0.1);
}

BOOST_AUTO_TEST_CASE(without_a_scale_it_is_counted_and_has_no_gradient) {
  const auto weight = router_weight();
  const balance_outcome found = balance_on(expert_mesh({1, 2, 1}), weight, 0);
  BOOST_TEST(std::abs(found.loss - balance_by_loops(weight)) < 1e-12);
  for (const double g : found.gradient) BOOST_TEST(g == 0);
}
