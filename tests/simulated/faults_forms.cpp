// SPDX-License-Identifier: Apache-2.0
// Faults that training systems had in shards, pipelines and masked contexts, each as the case in
// which it would show.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "layers.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/parallel/tied_parameter.hpp"
#include "tenon/train/optimizer.hpp"
#include "training.hpp"

using namespace tenon_test;

namespace {

using whole_on_tensor = on_grid<replicated, invariant>;
using vector_weight = parameter<fp64, dims<hidden>, whole_on_tensor>;
using matrix_weight = parameter<fp64, dims<ffn, hidden>, whole_on_tensor>;

constexpr shards every_stage[] = {shards::none, shards::optimizer, shards::gradients,
                                  shards::parameters};

void set_all(std::span<fp64> values, double value) {
  for (fp64& each : values) each = value;
}

}  // namespace

// A tied row whose gradients are 0.5, 1.5 on the data ranks of the first stage and 2.5, 3.5 on
// those of the last, in runs where it lies at different places: 8, the sum of all, on its owner.
BOOST_AUTO_TEST_CASE(t01_tied_row_on_two_stages) {
  for (const shards stage : every_stage) {
    findings found;
    simulate(4, [&](transport& world) {
      ranks<grid> group(world, grid({2, 1}), {}, 2);
      dim_sizes sizes;
      sizes.set<hidden>(3).set<ffn>(5);
      run_state state;
      shared_parameters shared;
      const layer_context<grid> context{group, sizes, state, shared, ""};
      vector_weight row(context, {"row"});
      row.mark_tied();
      matrix_weight other(context, {"other"});
      // The last stage has another parameter before the row.
      std::vector<any_parameter<fp64>*> unit{&row};
      if (group.stage() == 1) unit.insert(unit.begin(), &other);
      parameter_store<fp64> store(unit, group.ledger(), {.stage = stage});
      tied_parameter<fp64> tied(group.pipeline(), &row);
      store.initialise(1);
      store.begin_step();
      store.begin_backward(0);
      const int data = group.grid().coordinate<axis::data>();
      set_all(row.gradient().values(), (group.stage() == 0 ? 0.5 : 2.5) + data);
      store.end_backward(0);
      store.finish_step();
      tied.sum_gradients();
      if (group.stage() == 0) {
        for (const fp64 v : row.owned_gradient()) found.equal(v, 8.0, "the tied gradient");
      }
      // After a step both stages hold the same row.
      if (group.stage() == 0) {
        for (fp64& v : row.owned_values()) v = 3;
      }
      tied.send_values();
      store.publish();
      store.need(0);
      for (const fp64 v : row.use().values()) found.equal(v, 3.0, "the row after the step");
      found.equal(row.use().elements(), std::int64_t{3}, "elements of the row");
      store.release(0);
      found.equal(row.counted_here(), group.stage() == 0 && (stage != shards::none || data == 0),
                  "who counts the row");
    });
    BOOST_TEST(found.first() == "", name_of(stage));
  }
}

// Gradients 1 then 3 of two microbatches: a plain step of rate 1 from 0 leads to -2, minus their
// mean, in every stage; -3 would be the last one alone, -4 their sum.
BOOST_AUTO_TEST_CASE(t23_accumulation_in_every_stage) {
  for (const shards stage : every_stage) {
    for (const bool overlap : {false, true}) {
      BOOST_TEST(on_ranks(2, 1, [&](findings& found, built_with<>& all) {
                   all.sizes.set<hidden>(3).set<ffn>(5);
                   vector_weight w(all.context(""), {"w"});
                   std::vector<any_parameter<fp64>*> unit{&w};
                   parameter_store<fp64> store(unit, all.group.ledger(),
                                               {.stage = stage, .overlap = overlap});
                   store.initialise(1);
                   store.begin_step(2);
                   for (const double gradient : {1.0, 3.0}) {
                     store.begin_backward(0);
                     // Of the mean over 2 ranks and 2 microbatches this rank adds a quarter.
                     for (fp64& v : w.gradient().values()) v += gradient / 4;
                     store.end_backward(0);
                   }
                   store.finish_step();
                   for (const fp64 v : w.owned_gradient()) found.equal(-v, -2.0, "the step");
                   const std::int64_t part = all.group.rank() == 0 ? 2 : 1;
                   found.equal(w.owned_elements(), stage == shards::none ? 3 : part,
                               "elements owned");
                 }) == "");
    }
  }
}

// Parts that begin and end inside a tensor: each element decays by the role of its own parameter.
BOOST_AUTO_TEST_CASE(t30_decay_in_shards) {
  for (const shards stage : every_stage) {
    BOOST_TEST(on_ranks(3, 1, [&](findings& found, built_with<>& all) {
                 all.sizes.set<ffn>(5).set<hidden>(3);
                 const auto ones = initial_values::all(1);
                 matrix_weight matrix(all.context(""), {"matrix", parameter_role::matrix, ones});
                 vector_weight gain(all.context(""), {"gain", parameter_role::gain, ones});
                 vector_weight bias(all.context(""), {"bias", parameter_role::bias, ones});
                 std::vector<any_parameter<fp64>*> unit{&gain, &matrix, &bias};
                 parameter_store<fp64> store(unit, all.group.ledger(), {.stage = stage});
                 store.initialise(1);
                 store.begin_step();
                 store.begin_backward(0);
                 store.end_backward(0);
                 store.finish_step();
                 adamw<fp64> optimizer(unit, {.weight_decay = 0.1});
                 optimizer.step(0.1, 1, 1);
                 store.publish();
                 store.need(0);
                 for (const fp64 v : matrix.use().values()) found.close(v, 0.99, 1e-15, "matrix");
                 for (const fp64 v : gain.use().values()) found.equal(v, 1.0, "gain");
                 for (const fp64 v : bias.use().values()) found.equal(v, 1.0, "bias");
                 store.release(0);
               }) == "");
  }
}

// Fewer microbatches than stages, uneven microbatches and layers; more stages than layers.
BOOST_AUTO_TEST_CASE(t34_pipeline_shapes) {
  for (const std::int64_t layers : {4, 5}) {
    training_request request;
    request.shape = small_shape(block_form::gpt2);
    request.shape.layers = layers;
    request.batch = 8;
    request.steps = 2;
    const training_outcome serial = run_training(request);
    for (const int stages : {2, 3, 4}) {
      for (const std::int64_t microbatch : {8, 4, 3, 2}) {  // 1, 2, 3 and 4 microbatches
        request.pipeline = stages;
        request.microbatch = microbatch;
        request.schedule = pipeline_schedules[static_cast<std::size_t>(stages + microbatch) % 2];
        BOOST_TEST_CONTEXT(text_of(request)) {
          const training_outcome parallel = run_training(request);
          for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
          BOOST_TEST(missed_bars(compare(serial, parallel), 1e-9) == "");
        }
      }
    }
  }
  training_request request;
  request.shape = small_shape(block_form::gpt2);
  request.pipeline = 3;  // of 2 layers
  BOOST_CHECK_EXCEPTION(run_training(request), error, [](const error& e) {
    return std::string(e.what()).find("--layers 2 cannot be cut into 3 stages") !=
           std::string::npos;
  });
}

// Losses that are masked unevenly, on the first sequence alone, or all: the mean is over what
// counts anywhere, however contexts cut it; nothing counts gives exactly 0.
BOOST_AUTO_TEST_CASE(t08_masked_losses_over_contexts) {
  for (const int masked : {1, 2, 3}) {
    training_request request;
    request.shape = small_shape(block_form::llama);
    request.shape.sequence = 9;
    request.masked = masked;
    request.steps = 2;
    const training_outcome serial = run_training(request);
    if (masked == 2) {
      BOOST_TEST(serial.losses[0] == 0);
      BOOST_TEST(serial.norms[0] == 0);
    }
    for (const auto& [context, data] : {std::tuple(2, 1), std::tuple(4, 1), std::tuple(2, 2)}) {
      request.context = context;
      request.data = data;
      BOOST_TEST_CONTEXT(text_of(request)) {
        const training_outcome parallel = run_training(request);
        for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
        if (masked == 2) {
          BOOST_TEST(parallel.losses[0] == 0);
          BOOST_TEST(parallel.norms[0] == 0);
        } else {
          BOOST_TEST(missed_bars(compare(serial, parallel)) == "");
        }
      }
    }
  }
}
