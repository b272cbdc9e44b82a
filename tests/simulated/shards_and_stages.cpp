// SPDX-License-Identifier: Apache-2.0
// Shards, pipelines and recomputing equal one rank: losses, gradients and weights by the bars of
// fp64, predicted bytes and memory exactly what is counted, on every rank.
#include <boost/test/unit_test.hpp>
#include <tuple>
#include <vector>

#include "training.hpp"

namespace {

using namespace tenon_test;

training_request request_of(block_form form) {
  training_request request;
  request.shape = small_shape(form);
  request.shape.layers = 4;
  request.steps = 3;
  return request;
}

void check(const training_outcome& serial, const training_request& request) {
  BOOST_TEST_CONTEXT(text_of(request)) {
    const training_outcome parallel = run_training(request);
    for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
    BOOST_TEST(missed_bars(compare(serial, parallel)) == "");
  }
}

constexpr shards stages[] = {shards::none, shards::optimizer, shards::gradients,
                             shards::parameters};

}  // namespace

BOOST_AUTO_TEST_CASE(shards_equal_one_rank) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    const training_outcome serial = run_training(request);
    for (const shards stage : stages) {
      for (const bool overlap : {false, true}) {
        request.shards = {.stage = stage, .overlap = overlap};
        for (const auto& [data, expert, tensor] :
             {std::tuple(2, 1, 1), std::tuple(3, 1, 1), std::tuple(1, 2, 3), std::tuple(2, 2, 2)}) {
          request.data = data;
          request.expert = expert;
          request.tensor = tensor;
          request.split_sequence = tensor > 2;
          check(serial, request);
        }
      }
      // Hybrid: two ranks divide, the others hold copies.
      request.data = 4;
      request.expert = request.tensor = 1;
      request.split_sequence = false;
      request.shards = {.stage = stage, .data_extent = 2, .bucket = {100}};
      check(serial, request);
    }
  }
}

BOOST_AUTO_TEST_CASE(schedules_equal_one_rank) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    const training_outcome serial = run_training(request);
    for (const pipeline_schedule schedule : pipeline_schedules) {
      request.schedule = schedule;
      request.chunks = schedule == pipeline_schedule::interleaved ? 2 : 1;
      for (const std::int64_t microbatch : {8, 3, 1}) {  // fewer than stages; a smaller last; more
        request.microbatch = microbatch;
        for (const int pipeline : {1, 2, request.chunks == 1 ? 3 : 2}) {
          request.pipeline = pipeline;
          check(serial, request);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_and_schedules_together) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    const training_outcome serial = run_training(request);
    request.pipeline = 2;
    request.microbatch = 1;
    for (const pipeline_schedule schedule : pipeline_schedules) {
      request.schedule = schedule;
      request.chunks = schedule == pipeline_schedule::interleaved ? 2 : 1;
      for (const shards stage : stages) {
        for (const bool overlap : {false, true}) {
          request.shards = {.stage = stage, .overlap = overlap};
          request.data = overlap ? 3 : 2;
          request.tensor = overlap ? 1 : 2;
          request.split_sequence = !overlap;
          check(serial, request);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(recomputing_equals_keeping) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.shape.dropout = 0.1;
    const training_outcome serial = run_training(request);
    for (const recompute what : {recompute::attention, recompute::block}) {
      request.recompute = what;
      request.pipeline = request.data = request.tensor = 1;
      request.schedule = pipeline_schedule::one_forward_one_backward;
      check(serial, request);
      request.pipeline = request.tensor = 2;
      request.schedule = pipeline_schedule::zero_bubble;
      check(serial, request);
      request.data = 2;
      request.shards = {.stage = shards::parameters, .overlap = true};
      check(serial, request);
    }
  }
}
