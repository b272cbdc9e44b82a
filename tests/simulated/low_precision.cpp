// SPDX-License-Identifier: Apache-2.0
// Training in fp32 and bf16 on meshes, close to one rank, and what it holds.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"
#include "training.hpp"

using namespace tenon_test;

namespace {

// Bars, as multiples of half a unit in the last place u (fp32 2^-24, bf16 2^-8), a few times what
// these shapes show. A loss is a mean over 40 tokens of losses whose logits are rounded: the errors
// average out to a few u in fp32; in bf16 logits of about 0.3, rounded to u of themselves, move a
// loss of 5.5 by less than u / 4. A gradient's error is that of the sums over cut dims, some u of
// the tensor's largest. AdamW divides a gradient by its own size, so a weight's difference, here in
// learning rates, is the relative error of the smallest gradients. Key biases, whose gradients are
// rounding noise, may go either way: 2 x 5 rates.
struct bars {
  double loss;
  double gradients;
  double losses;
  double weights;
};
constexpr double fp32_unit = 1.0 / (1 << 24);
constexpr double bf16_unit = 1.0 / (1 << 8);

bars bars_of(element_kind element) {
  if (element == element_kind::fp32) return {4 * fp32_unit, 64 * fp32_unit, 8 * fp32_unit, 1e-5};
  return {bf16_unit / 4, 8 * bf16_unit, bf16_unit / 2, 0.1};
}

void check_close(element_kind element, block_form form) {
  training_request request;
  request.element = element;
  request.shape = small_shape(form);
  const training_outcome serial = run_training(request);
  for (const auto& fault : serial.faults) BOOST_ERROR("one rank: " << fault);
  const bars limits = bars_of(element);
  const std::vector<std::pair<int, int>> meshes = {{2, 2}, {3, 1}, {1, 3}, {1, 8}};
  for (const auto& [data, tensor] : meshes) {
    for (const bool split : {false, true}) {
      request.data = data;
      request.tensor = tensor;
      request.split_sequence = split;
      BOOST_TEST_CONTEXT(text_of(request)) {
        const training_outcome parallel = run_training(request);
        for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
        const differences d = compare(serial, parallel);
        BOOST_TEST(d.initial_equal);
        BOOST_TEST(d.loss < limits.loss);
        BOOST_TEST(d.gradients < limits.gradients);
        BOOST_TEST(d.losses < limits.losses);
        BOOST_TEST(d.weights < limits.weights);
        BOOST_TEST(d.noisy_weights <= 10.0);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(fp32_gpt2) { check_close(element_kind::fp32, block_form::gpt2); }
BOOST_AUTO_TEST_CASE(fp32_llama) { check_close(element_kind::fp32, block_form::llama); }
BOOST_AUTO_TEST_CASE(bf16_gpt2) { check_close(element_kind::bf16, block_form::gpt2); }
BOOST_AUTO_TEST_CASE(bf16_llama) { check_close(element_kind::bf16, block_form::llama); }

// Weights, master weights, gradient and two moments: 2 + 4 + 4 + 8 bytes against 4 + 4 + 8.
BOOST_AUTO_TEST_CASE(bytes_of_a_parameter) {
  training_request request;
  request.steps = 1;
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    request.shape = small_shape(form);
    for (const int tensor : {1, 2}) {
      request.tensor = tensor;
      const auto bytes = [&](element_kind element) {
        request.element = element;
        const training_outcome outcome = run_training(request);
        BOOST_TEST(outcome.parameters == parameters(request.shape));
        BOOST_TEST(outcome.state_bytes % outcome.owned == 0);
        return outcome.state_bytes / outcome.owned;
      };
      BOOST_TEST(bytes(element_kind::bf16) == 18);
      BOOST_TEST(bytes(element_kind::fp32) == 16);
      BOOST_TEST(bytes(element_kind::fp64) == 32);
    }
  }
}

// T-08, T-09: the loss is the mean over all counted tokens, however they lie.
BOOST_AUTO_TEST_CASE(t08_t09_masked_training) {
  for (const int masked : {1, 3}) {
    training_request request;
    request.shape = small_shape(block_form::llama);
    request.masked = masked;
    request.batch = 5;
    request.microbatch = 2;
    const training_outcome serial = run_training(request);
    request.data = 3;
    BOOST_TEST(missed_bars(compare(serial, run_training(request))) == "");
  }
}
BOOST_AUTO_TEST_CASE(t08_nothing_counts) {
  training_request request;
  request.shape = small_shape(block_form::gpt2);
  request.masked = 2;
  request.data = 2;
  request.weight_decay = 0;
  request.steps = 2;
  const training_outcome outcome = run_training(request);
  for (const auto& fault : outcome.faults) BOOST_ERROR(fault);
  BOOST_TEST(outcome.losses == std::vector<double>({0, 0}));
  BOOST_TEST(outcome.norms == std::vector<double>({0, 0}));
  BOOST_TEST(equal_bits(outcome.initial, outcome.weights));  // no NaN, no step
}

// T-22 on whole runs: buckets and delays change nothing under fixed sums, and repeats are equal.
BOOST_AUTO_TEST_CASE(t22_buckets_of_a_run) {
  training_request request;
  request.shape = small_shape(block_form::gpt2);
  request.data = 3;
  request.steps = 2;
  for (const sum_order sums : {sum_order::any, sum_order::fixed}) {
    request.sums = sums;
    request.shards.bucket = {0};
    request.options = {};
    const training_outcome first = run_training(request);
    for (const std::int64_t bucket : {std::int64_t{0}, std::int64_t{1000}, std::int64_t{1} << 22}) {
      request.shards.bucket = {bucket};
      request.options.delayed_rank = -2;
      request.options.longest_delay = std::chrono::microseconds(500);
      request.options.seed = 5 + static_cast<std::uint64_t>(bucket);
      const training_outcome again = run_training(request);
      if (sums == sum_order::fixed || bucket == 0) {
        BOOST_TEST(equal_bits(first.weights, again.weights));
      } else {
        BOOST_TEST(difference(first.gradients, again.gradients, 0) < 1e-14);
      }
    }
  }
}
