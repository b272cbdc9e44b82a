// SPDX-License-Identifier: Apache-2.0
// Training on a grid of ranks gives what one rank gives, and sends and holds what was predicted.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "training.hpp"

using namespace tenon_test;

namespace {

// A grid beside other axes.
struct grid_layout {
  int side = 2;
  int data = 1;
  int pipeline = 1;
  int expert = 1;
  int context = 1;
  shard_settings shards{};
  tenon::recompute recompute = tenon::recompute::none;
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
};

void check_grids(training_request request, const std::vector<grid_layout>& layouts) {
  const training_outcome serial = run_training(request);
  for (const auto& fault : serial.faults) BOOST_ERROR("one rank: " << fault);
  for (const auto& one : layouts) {
    request.tensor_grid = one.side;
    request.data = one.data;
    request.pipeline = one.pipeline;
    request.expert = one.expert;
    request.context = one.context;
    request.shards = one.shards;
    request.recompute = one.recompute;
    request.schedule = one.schedule;
    BOOST_TEST_CONTEXT(text_of(request)) {
      const training_outcome parallel = run_training(request);
      for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
      BOOST_TEST(missed_bars(compare(serial, parallel), 1e-9) == "");
    }
  }
}

// Batch 5 over rows, 4 heads with 2 kv heads and vocabulary 257 over columns: neither 2 nor 3
// divides them all.
training_request request_of(block_form form) {
  training_request request;
  request.shape = small_shape(form);
  request.batch = 5;
  return request;
}
constexpr shard_settings all_shards{.stage = shards::parameters};

}  // namespace

BOOST_AUTO_TEST_CASE(grids_equal_one_rank) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    check_grids(request_of(form), {{.side = 1},
                                   {.side = 2},
                                   {.side = 3},
                                   {.data = 2},
                                   {.data = 2, .shards = all_shards},
                                   {.pipeline = 2},
                                   {.recompute = tenon::recompute::attention},
                                   {.recompute = tenon::recompute::block}});
  }
}

// Gradients of weights are exchanged when a pipeline would idle; attention exchanges over contexts.
BOOST_AUTO_TEST_CASE(grids_beside_every_other_axis) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.steps = 2;
    check_grids(request, {{.pipeline = 2, .schedule = pipeline_schedule::zero_bubble},
                          {.data = 2,
                           .pipeline = 2,
                           .shards = {.stage = shards::parameters, .overlap = true},
                           .recompute = tenon::recompute::block},
                          {.context = 2},
                          {.expert = 2}});
  }
}

// Dropout, masked targets, a clipped gradient, hidden 25 in 5 heads, microbatches of 3.
BOOST_AUTO_TEST_CASE(odd_sizes) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form);
    request.shape.hidden = form == block_form::gpt2 ? 25 : 30;
    request.shape.heads = request.shape.kv_heads = 5;
    request.shape.ffn = 41;
    request.shape.dropout = 0.2;
    request.batch = 7;
    request.microbatch = 3;
    request.masked = 1;
    request.clip = 0.05;
    request.steps = 3;
    check_grids(request, {{.side = 2}, {.side = 3}, {.data = 2}});
  }
}

// More rows and columns than there are sequences and heads.
BOOST_AUTO_TEST_CASE(some_ranks_have_nothing) {
  training_request request = request_of(block_form::llama);
  request.shape.heads = request.shape.kv_heads = 2;
  request.batch = 2;
  request.steps = 2;
  check_grids(request, {{.side = 3}});
}

// The comparison finds a sum over ranks that was lost.
BOOST_AUTO_TEST_CASE(sabotage_is_found) {
  training_request request = request_of(block_form::gpt2);
  request.steps = 2;
  const training_outcome serial = run_training(request);
  request.tensor_grid = 2;
  request.data = 2;
  request.broken = sabotage::lost_data_reduction;
  const training_outcome changed = run_training(request);
  BOOST_TEST(compare(serial, changed).gradients > 1e-10);
  BOOST_TEST(!changed.faults.empty());
}
