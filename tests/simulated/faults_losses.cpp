// SPDX-License-Identifier: Apache-2.0
// Faults of losses, norms and masks that users of this field have met, reduced to a few numbers.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "layers.hpp"
#include "tenon/layer/dropout.hpp"
#include "tenon/layer/loss.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/train/clip.hpp"

using namespace tenon_test;

namespace {

template <class E>
using logits_of =
    tensor<E, dims<batch, sequence, vocabulary>, on_grid<sharded<batch>, sharded<vocabulary>>>;

struct loss_and_gradient {
  double sum = 0;                // of the losses, over all ranks
  std::vector<double> gradient;  // this rank's, of the sum of losses x scale
  std::int64_t columns = 0;      // of the vocabulary, on this rank
};

// Cross-entropy of rows x vocabulary logits, given globally, rows cut over data and the vocabulary
// over tensor.
template <class E>
loss_and_gradient loss_of(built_with<>& all, std::int64_t batches, std::int64_t words,
                          const std::vector<double>& logits,
                          const std::vector<std::int32_t>& targets, double scale) {
  const std::int64_t positions = static_cast<std::int64_t>(targets.size()) / batches;
  using layer = bound_to<cross_entropy, logits_of<E>>;
  logits_of<E> x(all.group, {batches, positions, words});
  for_each_global_index(x, [&](E& value, std::int64_t i) {
    value = E(static_cast<wide<E>>(logits[static_cast<std::size_t>(i)]));
  });
  typename layer::targets_type wanted(all.group, {batches, positions});
  for_each_global_index(wanted, [&](std::int32_t& value, std::int64_t i) {
    value = targets[static_cast<std::size_t>(i)];
  });
  layer loss(all.context("loss"));
  auto [total, saved] = loss.forward(x, wanted);
  const double mine = total.values()[0];
  auto gradient = loss.backward(scale, std::move(saved));
  loss_and_gradient result;
  // Every tensor rank has the total of its rows.
  result.sum = sum_over(all.group.everyone(), mine, "loss") /
               static_cast<double>(all.group.grid().extent<axis::tensor>());
  result.gradient.assign(gradient.values().begin(), gradient.values().end());
  result.columns = gradient.template extent<vocabulary>();
  return result;
}

// Two logits whose loss with target 0 is `loss`: ln(1 + e^z) = loss.
std::array<double, 2> logits_with(double loss) { return {0, std::log(std::expm1(loss))}; }

}  // namespace

BOOST_AUTO_TEST_CASE(t08_masked_loss_over_data) {
  struct mask_case {
    std::array<bool, 4> counted;
    double right;
  };
  const mask_case cases[] = {{{true, false, false, false}, 1},
                             {{true, true, true, false}, 2},
                             {{false, false, true, true}, 3.5},
                             {{true, false, true, true}, 8.0 / 3},
                             {{false, false, false, false}, 0}};
  for (const auto& [data, tensor] : {std::pair{1, 1}, {2, 1}, {2, 2}, {4, 1}}) {
    BOOST_TEST(on_ranks(data, tensor, [&](findings& found, built_with<>& all) {
                 for (const auto& [counted, right] : cases) {
                   std::vector<double> logits;
                   std::vector<std::int32_t> targets;
                   int count = 0;
                   for (int i = 0; i < 4; ++i) {
                     const bool here = counted[static_cast<std::size_t>(i)];
                     const auto pair = logits_with(i + 1);
                     logits.insert(logits.end(), pair.begin(), pair.end());
                     targets.push_back(here ? 0 : -1);
                     count += here ? 1 : 0;
                   }
                   const double scale = count == 0 ? 0 : 1.0 / count;
                   const auto loss = loss_of<fp64>(all, 4, 2, logits, targets, scale);
                   if (count == 0) {
                     found.equal(loss.sum, 0.0, "the loss of nothing");
                   } else {
                     found.close(loss.sum * scale, right, 1e-14, "the masked loss");
                   }
                   // A row that is not counted has no gradient; a counted one sums to 0 over all
                   // words and is not 0.
                   const auto share = partition::balanced(4, data);
                   const region mine = share.of(all.group.grid().coordinate<axis::data>());
                   for (std::int64_t row = 0; row < mine.size; ++row) {
                     for (std::int64_t c = 0; c < loss.columns; ++c) {
                       const double g =
                           loss.gradient[static_cast<std::size_t>(row * loss.columns + c)];
                       const bool here = counted[static_cast<std::size_t>(mine.begin + row)];
                       found.expect(here ? std::isfinite(g) && g != 0 : g == 0,
                                    joined("the gradient of row ", mine.begin + row, ": ", g));
                     }
                   }
                 }
               }) == "");
  }
}

// Microbatch A: three tokens of loss 1; B: one of loss 5. The mean is 2 however they are cut.
BOOST_AUTO_TEST_CASE(t09_uneven_microbatches) {
  for (const int data : {1, 2, 3}) {
    BOOST_TEST(on_ranks(data, 1, [&](findings& found, built_with<>& all) {
                 double sum = 0;
                 std::vector<double> losses = {1, 1, 1, 5};
                 std::size_t next = 0;
                 for (const std::size_t tokens : {3u, 1u}) {
                   std::vector<double> logits;
                   for (std::size_t i = 0; i < tokens; ++i) {
                     const auto pair = logits_with(losses[next++]);
                     logits.insert(logits.end(), pair.begin(), pair.end());
                   }
                   sum += loss_of<fp64>(all, static_cast<std::int64_t>(tokens), 2, logits,
                                        std::vector<std::int32_t>(tokens, 0), 0.25)
                              .sum;
                 }
                 found.close(sum * 0.25, 2, 1e-14, "the mean");
               }) == "");
  }
}

// 7 words do not divide over 2 or 3 ranks, and no word is added for it.
BOOST_AUTO_TEST_CASE(t11_vocabulary_that_does_not_divide) {
  for (const int tensor : {1, 2, 3, 8}) {
    BOOST_TEST(on_ranks(1, tensor, [&](findings& found, built_with<>& all) {
                 const auto loss = loss_of<fp64>(all, 1, 7, std::vector<double>(14, 0), {6, 2}, 1);
                 found.close(loss.sum, 2 * std::log(7), 1e-14, "the loss of equal logits");
                 found.equal(loss.columns, partition::balanced(7, tensor).of(all.group.rank()).size,
                             "words on this rank");
                 const auto words = partition::balanced(7, tensor).of(all.group.rank());
                 for (std::size_t i = 0; i < loss.gradient.size(); ++i) {
                   const auto row = static_cast<std::int64_t>(i) / words.size;
                   const auto word = words.begin + static_cast<std::int64_t>(i) % words.size;
                   const bool is_target = word == (row == 0 ? 6 : 2);
                   found.close(loss.gradient[i], 1.0 / 7 - (is_target ? 1 : 0), 1e-15,
                               "the gradient of a word");
                 }
                 double sum = 0;
                 for (const double g : loss.gradient) sum += g;
                 found.close(sum_over(all.group.everyone(), sum, "sum"), 0, 1e-15,
                             "the gradient's sum");
               }) == "");
  }
}

namespace {

template <class E>
void check_extreme(double near, double loss_of_first, double loss_of_last, double limit) {
  for (const int tensor : {1, 2, 3}) {
    BOOST_TEST(on_ranks(1, tensor, [&](findings& found, built_with<>& all) {
                 const std::vector<double> logits = {1000, 0, near, -1000};
                 for (const std::int32_t target : {0, 3}) {
                   const auto loss = loss_of<E>(all, 1, 4, logits, {target}, 1);
                   const double right = target == 0 ? loss_of_first : loss_of_last;
                   found.close(loss.sum, right, limit * right, "the loss of extreme logits");
                   double sum = 0;
                   for (const double g : loss.gradient) sum += g;
                   // Each of the values is rounded to E once.
                   found.close(sum_over(all.group.everyone(), sum, "sum"), 0,
                               sizeof(E) == 2 ? 1.0 / 256 : limit, "the gradient's sum");
                 }
               }) == "");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(t13_extreme_logits) {
  const double first = std::log1p(std::exp(-1.0));
  BOOST_TEST(std::abs(first - 0.3132617) < 1e-7);
  check_extreme<fp64>(999, first, 2000 + first, 1e-15);
  check_extreme<fp32>(999, first, 2000 + first, 4e-7);
  const double narrow = std::log1p(std::exp(-4.0));  // 999 is not a bf16; 996 is
  BOOST_TEST(std::abs(narrow - 0.0181499) < 1e-7);
  check_extreme<bf16>(996, narrow, 2000 + narrow, 4e-6);
}

namespace {

// The sum of the gain's and bias's gradients for rows whose normalised values are (-1, 1) and whose
// upstream gradients are (1,2), (3,4), (5,6), (7,8).
template <class In, class D>
void check_norm_gradients(findings& found, built_with<>& all,
                          const shape<typename In::dims_type>& global) {
  bound_to<layer_norm<D>, In> norm(all.context("norm"));
  std::vector<any_parameter<fp64>*> parameters;
  norm.for_each_parameter([&](any_parameter<fp64>& p) {
    p.initialise(1);
    parameters.push_back(&p);
  });
  parameter_store<fp64> gradients(parameters, all.group.ledger());
  gradients.begin_step();
  In x(all.group, global);
  for_each_global_index(x, [](fp64& v, std::int64_t i) { v = i % 2 == 0 ? -1 : 1; });
  auto [y, saved] = norm.forward(x);
  gradient_of_value<In> g(all.group, gradient_layout(x.where()));
  for_each_global_index(g, [](fp64& v, std::int64_t i) { v = static_cast<double>(i + 1); });
  norm.backward(g, std::move(saved));
  gradients.reduce();
  const double size = 1 / std::sqrt(1 + 1e-5);
  found.close(parameters[0]->owned_gradient()[0], -16 * size, 1e-9, "the gain's gradient, 0");
  found.close(parameters[0]->owned_gradient()[1], 20 * size, 1e-9, "the gain's gradient, 1");
  found.equal(parameters[1]->owned_gradient()[0], 16.0, "the bias's gradient, 0");
  found.equal(parameters[1]->owned_gradient()[1], 20.0, "the bias's gradient, 1");
}

}  // namespace

BOOST_AUTO_TEST_CASE(t05_norm_gain_where_its_input_is_cut) {
  for (const int size : {1, 2, 4}) {
    BOOST_TEST(
        on_ranks(1, size, [&](findings& found, built_with<>& all) {
          all.sizes.set<hidden>(2).set<head_width>(2);
          using split = tensor<fp64, dims<batch, sequence, hidden>,
                               on_grid<sharded<batch>, sharded<sequence>>>;
          check_norm_gradients<split, hidden>(found, all, {1, 4, 2});
          using by_heads = tensor<fp64, dims<batch, sequence, heads, head_width>,
                                  on_grid<sharded<batch>, sharded<heads>>>;
          check_norm_gradients<by_heads, head_width>(found, all, {1, 1, 4, 2});
          check_norm_gradients<by_heads, head_width>(found, all, {2, 1, 2, 2});
          using whole =
              tensor<fp64, dims<batch, sequence, hidden>, on_grid<sharded<batch>, invariant>>;
          check_norm_gradients<whole, hidden>(found, all, {1, 4, 2});
        }) == "");
  }
}

namespace {

// The dropped elements of a stream of 6 x 5 x 8 ones in step `step`, on this rank, by global index.
template <class OnTensor>
std::vector<std::pair<std::int64_t, double>> dropped_stream(built_with<>& all, std::int64_t step) {
  using stream = tensor<fp64, dims<batch, sequence, hidden>, on_grid<sharded<batch>, OnTensor>>;
  all.state.seed = 3;
  all.state.step = step;
  all.state.dropout = 0.5;
  stream x(all.group, {6, 5, 8});
  all.state.batch_begin = x.where().template of<batch>().begin;
  for (fp64& v : x.values()) v = 1;
  bound_to<dropout, stream> drop(all.context("blocks.0"));
  auto [y, saved] = drop.forward(x);
  // Backward drops the same.
  gradient_of_value<stream> g(all.group, gradient_layout(y.where()));
  for (fp64& v : g.values()) v = 1;
  g = drop.backward(g, std::move(saved));
  std::vector<std::pair<std::int64_t, double>> values;
  for_each_global_index(y, [&](fp64& v, std::int64_t i) {
    const double back = g.data()[values.size()];
    values.emplace_back(i, back == v ? v : -1);
  });
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(t19_dropout_is_a_function_of_the_element) {
  std::vector<double> serial[2];
  BOOST_TEST(on_ranks(1, 1, [&](findings&, built_with<>& all) {
               for (int step : {0, 1}) {
                 for (const auto& [i, v] : dropped_stream<invariant>(all, step)) {
                   serial[step].push_back(v);
                 }
               }
             }) == "");
  BOOST_TEST(serial[0].size() == 240u);
  BOOST_TEST((std::set<double>(serial[0].begin(), serial[0].end()) == std::set<double>{0, 2}));
  BOOST_TEST((serial[0] != serial[1]));
  // The data ranks' halves are not the same.
  BOOST_TEST((std::vector<double>(serial[0].begin(), serial[0].begin() + 120) !=
              std::vector<double>(serial[0].begin() + 120, serial[0].end())));
  for (const auto& [data, tensor] : {std::pair{2, 2}, {1, 3}, {4, 2}}) {
    BOOST_TEST(on_ranks(data, tensor, [&](findings& found, built_with<>& all) {
                 for (const int step : {0, 1}) {
                   const auto check = [&](const auto& values, const char* what) {
                     for (const auto& [i, v] : values) {
                       found.equal(v, serial[step][static_cast<std::size_t>(i)], what);
                     }
                   };
                   check(dropped_stream<invariant>(all, step), "the whole stream");
                   check(dropped_stream<sharded<sequence>>(all, step), "the split stream");
                   check(dropped_stream<sharded<hidden>>(all, step), "columns cut");
                 }
               }) == "");
  }
}
