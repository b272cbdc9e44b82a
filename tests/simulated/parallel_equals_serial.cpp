// SPDX-License-Identifier: Apache-2.0
// Training on a mesh gives what one rank gives, and sends and holds what was predicted.
#include "parallel.hpp"

#include "tenon/base/check.hpp"

using namespace tenon_test;

namespace {

// Batch 8 over data 3, 5 and 7 does not divide, nor do microbatches of 2 there; sequence 5, 4 heads
// with 2 kv heads over tensor 3 and 8, vocabulary 257 over all.
const std::vector<std::pair<int, int>> meshes = {{1, 2}, {2, 1}, {1, 3}, {3, 1}, {1, 4}, {4, 1},
                                                 {2, 2}, {3, 2}, {2, 4}, {1, 8}, {8, 1}, {7, 1}};

training_request request_of(block_form form) {
  training_request request;
  request.shape = small_shape(form);
  return request;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gpt2) { check_parallel_equals_serial(request_of(block_form::gpt2), meshes); }

BOOST_AUTO_TEST_CASE(llama) { check_parallel_equals_serial(request_of(block_form::llama), meshes); }

// Batch 7 in microbatches of 3, dropout on, targets masked unevenly, the gradient clipped.
BOOST_AUTO_TEST_CASE(odd_sizes) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.batch = 7;
    request.microbatch = 3;
    request.masked = 1;
    request.shape.dropout = 0.2;
    request.clip = 0.05;
    check_parallel_equals_serial(request, {{2, 2}, {4, 2}, {2, 3}});
  }
}

BOOST_AUTO_TEST_CASE(training_changes_the_loss) {
  const training_outcome serial = run_training(request_of(block_form::llama));
  BOOST_TEST(serial.losses.size() == 5u);
  BOOST_TEST(serial.losses.front() > 5.0);  // about ln 257
  BOOST_TEST(difference(serial.initial, serial.weights, 1e-3) > 1e-2);
}

// The comparison must find what it is there to find.
BOOST_AUTO_TEST_CASE(sabotage_is_found) {
  training_request request = request_of(block_form::gpt2);
  request.steps = 2;
  const training_outcome serial = run_training(request);
  request.data = 2;
  request.tensor = 2;
  request.broken = sabotage::none;
  BOOST_TEST(missed_bars(compare(serial, run_training(request))) == "");
  for (const auto broken : {sabotage::lost_data_reduction, sabotage::lost_tensor_reduction,
                            sabotage::scaled_gradient}) {
    request.broken = broken;
    const training_outcome changed = run_training(request);
    const differences d = compare(serial, changed);
    BOOST_TEST(d.initial_equal);
    BOOST_TEST(d.gradients > 1e-10);
    BOOST_TEST(missed_bars(d) != "");
    // A lost call was counted and not copied.
    BOOST_TEST(changed.faults.empty() == (broken == sabotage::scaled_gradient));
  }
}
