// SPDX-License-Identifier: Apache-2.0
// Faults of gradients, their norm and the optimizer that users of this field have met, reduced to a
// few numbers.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "layers.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/train/clip.hpp"
#include "tenon/train/optimizer.hpp"

using namespace tenon_test;

namespace {

template <class E, class D, class Use>
using weight = parameter<E, D, Use>;
// Uses: cut on tensor, or whole there; the same rows of the batch are on no two data ranks.
template <class D>
using cut_on_tensor = on_grid<replicated, sharded<D>>;
using whole_everywhere = on_grid<replicated, invariant>;

void set_all(std::span<fp64> values, double value) {
  for (fp64& v : values) v = value;
}

}  // namespace

BOOST_AUTO_TEST_CASE(t02_clip_norm_over_tensor) {
  BOOST_TEST(on_ranks(1, 2, [](findings& found, built_with<>& all) {
               all.sizes.set<heads>(2).set<hidden>(1);
               weight<fp64, dims<heads>, cut_on_tensor<heads>> matrix(all.context(""), {"matrix"});
               weight<fp64, dims<hidden>, whole_everywhere> gain(all.context(""),
                                                                 {"gain", parameter_role::gain});
               std::vector<any_parameter<fp64>*> both = {&matrix, &gain};
               parameter_store<fp64> gradients(both, all.group.ledger());
               gradients.begin_step();
               matrix.gradient().values()[0] = all.group.rank() == 0 ? 3 : 4;
               gain.gradient().values()[0] = 12;
               gradients.reduce();
               const double norm = gradient_norm(both, all.group);
               found.equal(norm, 13.0, "the norm");
               const double scale = clip_scale(norm, 6.5);
               found.equal(both[0]->owned_gradient()[0] * scale, all.group.rank() == 0 ? 1.5 : 2.0,
                           "the clipped weight");
               found.equal(both[1]->owned_gradient()[0] * scale, 6.0, "the clipped gain");
               // A step takes the scale: with betas 0 the first moment is the clipped gradient.
               adamw<fp64> optimizer(both, {.first_beta = 0, .second_beta = 0});
               optimizer.step(0.1, scale, 1);
               found.equal(optimizer.first_moment(1)[0], 6.0, "the gradient that is stepped with");
               // Only the cut parameter: nobody had to mark it.
               found.equal(gradient_norm<fp64>({&matrix}, all.group), 5.0, "the norm of one");
             }) == "");
}

BOOST_AUTO_TEST_CASE(t03_clip_norm_over_data) {
  BOOST_TEST(on_ranks(2, 1, [](findings& found, built_with<>& all) {
               all.sizes.set<hidden>(1);
               weight<fp64, dims<hidden>, whole_everywhere> w(all.context(""), {"w"});
               parameter_store<fp64> gradients({&w}, all.group.ledger());
               gradients.begin_step();
               w.gradient().values()[0] = 0.4;  // of each rank's half of the tokens
               gradients.reduce();
               any_parameter<fp64>& any = w;
               found.equal(any.owned_gradient()[0], 0.8, "the gradient");
               const double norm = gradient_norm<fp64>({&any}, all.group);
               found.equal(norm, 0.8, "the norm");
               found.equal(clip_scale(norm, 1), 1.0, "the scale");
             }) == "");
}

BOOST_AUTO_TEST_CASE(t04_norm_of_bf16_parameters) {
  for (const auto& [data, tensor] : {std::pair{1, 2}, {2, 1}}) {
    BOOST_TEST(on_ranks(data, tensor, [&](findings& found, built_with<>& all) {
                 all.sizes.set<heads>(2);
                 double norm = 0;
                 if (all.group.grid().extent<axis::tensor>() == 2) {
                   weight<bf16, dims<heads>, cut_on_tensor<heads>> w(all.context(""), {"w"});
                   parameter_store<fp32> gradients({&w}, all.group.ledger());
                   gradients.begin_step();
                   w.gradient().values()[0] = all.group.rank() == 0 ? 16.0F : 1.0F;
                   gradients.reduce();
                   norm = gradient_norm<fp32>({&w}, all.group);
                 } else {
                   // The sum over data is in fp32 too: 256 + 1 is not a bf16.
                   weight<bf16, dims<heads>, whole_everywhere> w(all.context(""), {"w"});
                   parameter_store<fp32> gradients({&w}, all.group.ledger());
                   gradients.begin_step();
                   w.gradient().values()[0] = all.group.rank() == 0 ? 256.0F : 1.0F;
                   w.gradient().values()[1] = 0;
                   gradients.reduce();
                   norm = std::sqrt(gradient_norm<fp32>({&w}, all.group));
                 }
                 found.close(norm, std::sqrt(257.0), 1e-15 * 16, "the norm");
               }) == "");
  }
}

namespace {

// The gradients of a layer's last parameter, a bias, after backward with each of the upstream
// gradients.
template <class E, class Layer = layer_norm<hidden>>
std::vector<wide<E>> accumulated(built_with<>& all, const std::vector<float>& upstream) {
  using stream = tensor<E, dims<batch, sequence, hidden>, on_grid<sharded<batch>, invariant>>;
  all.sizes.template set<hidden>(1).template set<ffn>(1);
  bound_to<Layer, stream> layer(all.context("layer"));
  std::vector<any_parameter<wide<E>>*> parameters;
  layer.for_each_parameter([&](any_parameter<wide<E>>& p) {
    p.initialise(1);
    parameters.push_back(&p);
  });
  parameter_store<wide<E>> gradients(parameters, all.group.ledger());
  gradients.begin_step();
  for (const float each : upstream) {
    stream x(all.group, {all.group.grid().template extent<axis::data>(), 1, 1});
    x.values()[0] = E(1.0F);
    auto [y, saved] = layer.forward(x);
    gradient_of_value<output_of<Layer, stream>> g(all.group, gradient_layout(y.where()));
    g.values()[0] = E(each);
    layer.backward(g, std::move(saved));
  }
  gradients.reduce();
  const auto bias = parameters[1]->owned_gradient();
  return {bias.begin(), bias.end()};
}

}  // namespace

// Gradients 1 then 3 of two microbatches on two ranks, each a quarter of the tokens.
BOOST_AUTO_TEST_CASE(t23_accumulation) {
  BOOST_TEST(on_ranks(2, 1, [](findings& found, built_with<>& all) {
               const auto gradient = accumulated<fp64>(all, {0.25F * 1, 0.25F * 3});
               found.equal(0 - 1.0 * gradient[0], -2.0, "the weight after one step of rate 1");
             }) == "");
}

BOOST_AUTO_TEST_CASE(t26_accumulation_is_in_fp32) {
  BOOST_TEST(on_ranks(1, 1, [](findings& found, built_with<>& all) {
               std::vector<float> upstream(256, 1.0F / 512);
               upstream[0] = 1;
               found.equal(accumulated<bf16>(all, upstream)[0], 1.498046875F, "of a norm's bias");
               using product = linear<dims<hidden>, dims<ffn>, assignment<>, bias_use::with>;
               found.equal(accumulated<bf16, product>(all, upstream)[0], 1.498046875F,
                           "of a product's bias");
             }) == "");
}

namespace {

struct uneven_case {
  std::int64_t rows;
  int ranks;
  std::vector<std::int64_t> pieces;
};

}  // namespace

BOOST_AUTO_TEST_CASE(t27_uneven_and_empty_pieces) {
  const uneven_case cases[] = {{5, 4, {2, 1, 1, 1}},
                               {10, 4, {3, 3, 2, 2}},
                               {5, 2, {3, 2}},
                               {2, 8, {1, 1, 0, 0, 0, 0, 0, 0}}};
  for (const auto& [rows, size, pieces] : cases) {
    BOOST_TEST(
        on_ranks(1, size, [&, rows = rows, pieces = pieces](findings& found, built_with<>& all) {
          all.sizes.set<ffn>(rows).set<hidden>(10);
          using matrix = weight<fp64, dims<ffn, hidden>, cut_on_tensor<ffn>>;
          matrix w(all.context(""), {"w", parameter_role::matrix, initial_values::normal(1)});
          any_parameter<fp64>& any = w;
          const std::vector<any_parameter<fp64>*> parameters = {&any};
          parameter_store<fp64> gradients(parameters, all.group.ledger());
          any.initialise(9);
          found.equal(any.global_elements(), rows * 10, "elements of all");
          found.equal(any.owned_elements(), pieces[static_cast<std::size_t>(all.group.rank())] * 10,
                      "elements here");
          const auto check_gathered = [&](double change) {
            auto whole = redistribute<axis::tensor, invariant>(w.owned());
            found.equal(whole.global_shape().of<ffn>(), rows, "gathered rows");
            found.equal(whole.elements(), rows * 10, "gathered elements");
            const random_stream stream(9, "w");
            for_each_global_index(whole, [&](fp64& v, std::int64_t i) {
              found.close(v, stream.normal(i) + change, change == 0 ? 0 : 1e-14,
                          "a gathered weight");
            });
          };
          check_gathered(0);
          gradients.begin_step();
          set_all(w.gradient().values(), 2);
          gradients.reduce();
          const double norm = gradient_norm(parameters, all.group);
          found.close(norm, 2 * std::sqrt(static_cast<double>(rows * 10)), 1e-14, "the norm");
          // One step of AdamW moves every weight by the rate, whatever the gradient's size.
          adamw<fp64> optimizer(parameters, {.epsilon = 0, .weight_decay = 0});
          optimizer.step(0.1, clip_scale(norm, 1), 1);
          any.publish();
          check_gathered(-0.1);
        }) == "");
  }
}

BOOST_AUTO_TEST_CASE(t30_decay_by_role) {
  for (const auto& [data, tensor] : {std::pair{3, 1}, {1, 2}}) {
    BOOST_TEST(on_ranks(data, tensor, [](findings& found, built_with<>& all) {
                 all.sizes.set<ffn>(5).set<hidden>(3);
                 const auto ones = initial_values::all(1);
                 weight<fp64, dims<ffn, hidden>, cut_on_tensor<ffn>> matrix(
                     all.context(""), {"matrix", parameter_role::matrix, ones});
                 weight<fp64, dims<ffn>, cut_on_tensor<ffn>> bias(
                     all.context(""), {"bias", parameter_role::bias, ones});
                 weight<fp64, dims<hidden>, whole_everywhere> gain(
                     all.context(""), {"gain", parameter_role::gain, ones});
                 const std::vector<any_parameter<fp64>*> parameters = {&matrix, &bias, &gain};
                 parameter_store<fp64> gradients(parameters, all.group.ledger());
                 for (auto* p : parameters) p->initialise(1);
                 gradients.begin_step();
                 gradients.reduce();
                 adamw<fp64> optimizer(parameters, {.weight_decay = 0.1});
                 optimizer.step(0.1, 1, 1);
                 for (auto* p : parameters) {
                   const bool decays = p->declaration().role == parameter_role::matrix;
                   for (const fp64 v : p->owned_values()) {
                     if (decays) {
                       found.close(v, 0.99, 1e-15, p->declaration().name);
                     } else {
                       found.equal(v, 1.0, p->declaration().name);
                     }
                   }
                 }
               }) == "");
  }
}

namespace {

// The gradients of four parameters that are partial over data, after their reduction in buckets.
std::vector<double> reduced(int data, std::int64_t bucket, sum_order sums,
                            const simulated_options& options) {
  std::vector<double> result;
  findings found;
  simulate(
      data,
      [&](transport& world) {
        built_with<> all(world, grid({data, 1}), {.sums = sums});
        all.sizes.set<ffn>(13).set<hidden>(7);
        weight<fp64, dims<ffn, hidden>, cut_on_tensor<ffn>> a(all.context(""), {"a"});
        weight<fp64, dims<hidden>, whole_everywhere> b(all.context(""), {"b"});
        weight<fp64, dims<ffn>, cut_on_tensor<ffn>> c(all.context(""), {"c"});
        weight<fp64, dims<hidden, ffn>, cut_on_tensor<ffn>> d(all.context(""), {"d"});
        parameter_store<fp64> gradients({&a, &b, &c, &d}, all.group.ledger(), {.bucket = {bucket}});
        gradients.begin_step();
        const auto fill = [&](auto& w) {
          const random_stream stream(static_cast<std::uint64_t>(all.group.rank()) + 20,
                                     w.declaration().name);
          for_each_global_index(w.gradient(),
                                [&](fp64& v, std::int64_t i) { v = stream.normal(i); });
        };
        fill(a), fill(b), fill(c), fill(d);
        gradients.reduce();
        if (all.group.rank() != 0) return;
        const std::vector<any_parameter<fp64>*> parameters = {&a, &b, &c, &d};
        for (auto* p : parameters) {
          result.insert(result.end(), p->owned_gradient().begin(), p->owned_gradient().end());
        }
      },
      options);
  return result;
}

bool same_bits(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(t22_buckets_repeats_and_delays) {
  for (const int data : {3, 4}) {
    for (const sum_order sums : {sum_order::any, sum_order::fixed}) {
      const std::vector<double> first = reduced(data, 1 << 20, sums, {});
      BOOST_TEST(first.size() == 13u * 7 * 2 + 7 + 13);
      for (const std::int64_t bucket : {1, 10, 0, 1 << 20}) {
        const std::vector<double> of_setting = reduced(data, bucket, sums, {});
        for (int repeat = 0; repeat < 50; ++repeat) {
          simulated_options options;
          // Up to 50 ms where a run makes few calls; buckets of one element make 200 calls a run.
          if (repeat % 2 == 1 && (bucket > 1 || repeat < 5)) {
            const int longest = bucket == 1 ? 20 : (repeat < 3 ? 50000 : 200);
            options.delayed_rank = repeat % 4 == 1 ? -2 : 1;
            options.longest_delay = std::chrono::microseconds(longest);
            options.seed = static_cast<std::uint64_t>(repeat);
          }
          BOOST_TEST(same_bits(of_setting, reduced(data, bucket, sums, options)));
        }
        if (sums == sum_order::fixed) {
          BOOST_TEST(same_bits(first, of_setting));
        } else {
          double apart = 0;
          double largest = 0;
          for (std::size_t i = 0; i < first.size(); ++i) {
            apart = std::max(apart, std::abs(first[i] - of_setting[i]));
            largest = std::max(largest, std::abs(first[i]));
          }
          BOOST_TEST(apart <= 1e-14 * largest);
        }
      }
    }
  }
}
