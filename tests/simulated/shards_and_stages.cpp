// SPDX-License-Identifier: Apache-2.0
// Shards, pipelines and recomputing equal one rank: losses, gradients and weights by the bars of
// fp64, predicted bytes and memory exactly what is counted, on every rank.
#include <boost/test/unit_test.hpp>
#include <limits>
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

// A table of a user's own: two forwards ahead of each backward on the first stage.
BOOST_AUTO_TEST_CASE(a_schedule_of_ones_own) {
  const auto forward = [](int m) { return schedule_entry{pass_kind::forward, m, 0}; };
  const auto backward = [](int m) { return schedule_entry{pass_kind::backward, m, 0}; };
  training_request request = request_of(block_form::gpt2);
  const training_outcome serial = run_training(request);
  request.pipeline = 2;
  request.microbatch = 2;
  request.own_schedule = schedule_table{{.stages = 2, .microbatches = 4, .chunks = 1},
                                        {{forward(0), forward(1), forward(2), backward(0),
                                          backward(1), forward(3), backward(2), backward(3)},
                                         {forward(0), backward(0), forward(1), backward(1),
                                          forward(2), backward(2), forward(3), backward(3)}}};
  check(serial, request);
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

// All of it on one mesh: every option with contexts, documents packed.
BOOST_AUTO_TEST_CASE(everything_with_contexts) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.shape.sequence = 11;
    request.document_separator = 3;
    const training_outcome serial = run_training(request);
    request.context = 2;
    request.microbatch = 1;
    for (const pipeline_schedule schedule : pipeline_schedules) {
      request.schedule = schedule;
      request.chunks = schedule == pipeline_schedule::interleaved ? 2 : 1;
      request.pipeline = 2;
      for (const shards stage : stages) {
        const auto place = static_cast<int>(stage);
        request.shards = {.stage = stage, .overlap = place % 2 == 0};
        request.data = place % 2 == 0 ? 2 : 1;
        request.tensor = place % 2 == 0 ? 1 : 2;
        request.split_sequence = place == 1;
        request.attention.heads_parallel = place < 2 ? 2 : 1;
        request.recompute = place == 0   ? recompute::block
                            : place == 3 ? recompute::attention
                                         : recompute::none;
        check(serial, request);
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

// Elements of a step and rank, with m microbatches, d even shards and M elements:
//   none, optimizer   2M (d-1)/d
//   gradients         (m+1)M (d-1)/d
//   parameters        3mM (d-1)/d, less the backward's gather of the lookups and what the last
//                     layer keeps, plus each further use of a tied table
BOOST_AUTO_TEST_CASE(shards_send_what_the_formulas_say) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    for (const int d : {2, 4}) {
      training_request request = request_of(form);
      request.shape.vocabulary = 256;
      request.data = d;
      request.batch = 8;
      request.microbatch = 1;
      request.steps = 1;
      const std::int64_t m = 8 / d;
      const std::int64_t hidden_elements = request.shape.hidden;
      const std::int64_t table = 256 * hidden_elements;
      const bool tied = form == block_form::gpt2;
      const std::int64_t first = table + (tied ? request.shape.sequence * hidden_elements : 0);
      const std::int64_t last = tied ? 2 * hidden_elements : table + hidden_elements;
      std::int64_t held_before = std::numeric_limits<std::int64_t>::max();
      for (const shards stage : stages) {
        request.shards = {.stage = stage};
        const training_outcome outcome = run_training(request);
        for (const auto& fault : outcome.faults) BOOST_ERROR(fault);
        // What is held between steps shrinks from stage to stage.
        BOOST_TEST(outcome.costs.counted_state < held_before, text_of(request));
        held_before = outcome.costs.counted_state;
        const std::int64_t M = outcome.parameters;
        std::int64_t times = 0;  // elements, before (d-1)/d
        switch (stage) {
          case shards::none:
          case shards::optimizer:
            times = 2 * M;
            break;
          case shards::gradients:
            times = (m + 1) * M + (tied ? m * table : 0);
            break;
          case shards::parameters:
            times = 3 * m * M - m * (first + last) + (tied ? 2 * m * table : 0);
            break;
        }
        std::int64_t sent = 0;
        for (const auto& [row, bytes] : outcome.traffic) {
          const bool counts = row.find("gradients") != std::string::npos ||
                              row.find("weights") != std::string::npos ||
                              row.find("publish") != std::string::npos;
          if (counts && row.starts_with("data, ")) sent += bytes;
        }
        BOOST_TEST_CONTEXT(text_of(request)) { BOOST_TEST(sent == times * (d - 1) / d * 8); }
      }
    }
  }
}

// A second forward of what is recomputed, and nothing else: 2 operations for each weight and token
// in products, and for each head 4 S^2 w in attention, whose tiles are whole here.
BOOST_AUTO_TEST_CASE(recomputing_costs_one_forward) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.steps = 1;
    const decoder_shape& shape = completed(request.shape);
    const training_outcome all_kept = run_training(request);
    const double kept = all_kept.operations;
    const auto tokens = static_cast<double>(request.batch * shape.sequence);
    const auto all_heads = static_cast<double>(shape.heads * shape.head_width());
    const auto all_kv = static_cast<double>(shape.kv_heads * shape.head_width());
    const auto wide = static_cast<double>(shape.hidden);
    const auto length = static_cast<double>(shape.sequence);
    const double attention =
        2 * tokens * wide * (2 * all_heads + 2 * all_kv) + 4 * tokens * length * all_heads;
    const double feed_forward =
        2 * tokens * wide * static_cast<double>(shape.ffn) * (form == block_form::llama ? 3 : 2);
    const auto layers = static_cast<double>(shape.layers);
    request.recompute = recompute::attention;
    const training_outcome attention_again = run_training(request);
    BOOST_TEST(attention_again.operations - kept == layers * attention);
    request.recompute = recompute::block;
    const training_outcome block_again = run_training(request);
    BOOST_TEST(block_again.operations - kept == layers * (attention + feed_forward));
    // And it holds less.
    BOOST_TEST(attention_again.costs.counted_memory < all_kept.costs.counted_memory);
    BOOST_TEST(block_again.costs.counted_memory < attention_again.costs.counted_memory);
  }
}
