// SPDX-License-Identifier: Apache-2.0
// Whole training runs on emulated devices: the same trainers, launched through the same border as
// on a GPU, against the host. Host code that touches a tensor of the device would end the test.
#include <boost/test/unit_test.hpp>

#include "check_layouts/runs/training.hpp"
#include "kernels.hpp"
#include "tenon/memory/emulated_device.hpp"

using namespace tenon_test;

namespace {

struct entered {
  entered() {
    kernel::enter_emulated_kernels<fp64>();
    kernel::enter_emulated_kernels<fp32>();
    kernel::enter_emulated_kernels<bf16>();
  }
};
BOOST_GLOBAL_FIXTURE(entered);

/// The largest differences, as design's bars measure them.
struct bars {
  double losses;
  double gradients;
};

void check(training_request request, bars limits) {
  request.steps = 2;
  BOOST_TEST_CONTEXT(text_of(request)) {
    const training_outcome on_host = run_training(request);
    request.make_device = [] { return std::make_unique<emulated_device>(); };
    const training_outcome on_device = run_training(request);
    for (const auto& fault : on_device.faults) BOOST_ERROR(fault);
    const differences d = compare(on_host, on_device);
    BOOST_TEST(d.initial_equal);
    BOOST_TEST(d.losses <= limits.losses);
    BOOST_TEST(d.gradients <= limits.gradients);
  }
}

training_request small(block_form form, element_kind element = element_kind::fp64) {
  training_request request;
  request.element = element;
  request.shape = small_shape(form);
  request.batch = 3;
  return request;
}

constexpr bars of_fp64{1e-12, 1e-10};

}  // namespace

BOOST_AUTO_TEST_CASE(gpt2) { check(small(block_form::gpt2), of_fp64); }

BOOST_AUTO_TEST_CASE(llama) { check(small(block_form::llama), of_fp64); }

BOOST_AUTO_TEST_CASE(a_mixture) {
  auto request = small(block_form::llama);
  request.shape.experts = 4;
  request.shape.experts_per_token = 2;
  check(request, of_fp64);
}

BOOST_AUTO_TEST_CASE(documents_in_a_sequence) {
  auto request = small(block_form::llama);
  request.document_separator = 3;
  check(request, of_fp64);
  request = small(block_form::gpt2);
  request.document_separator = 3;
  request.recompute = recompute::block;
  check(request, of_fp64);
}

// Several ranks, each on a device of its own: what crosses is staged through the host.
BOOST_AUTO_TEST_CASE(ranks_with_devices) {
  auto request = small(block_form::llama);
  request.data = 2;
  request.tensor = 2;
  request.split_sequence = true;
  request.shards = {.stage = shards::parameters};
  check(request, of_fp64);
  request.shards.overlap = true;
  check(request, of_fp64);
  request = small(block_form::gpt2);
  request.context = 2;
  request.pipeline = 2;
  request.sums = sum_order::fixed;
  check(request, of_fp64);
  request = small(block_form::llama);
  request.tensor_grid = 2;
  check(request, of_fp64);
  request = small(block_form::llama);
  request.shape.experts = 4;
  request.shape.experts_per_token = 2;
  request.expert = 2;
  request.tensor = 3;  // kv heads are spread
  check(request, of_fp64);
}

BOOST_AUTO_TEST_CASE(low_precision) {
  check(small(block_form::llama, element_kind::fp32), {1e-5, 1e-4});
  check(small(block_form::gpt2, element_kind::fp32), {1e-5, 1e-4});
  check(small(block_form::llama, element_kind::bf16), {1e-2, 5e-2});
  auto request = small(block_form::llama, element_kind::bf16);
  request.data = 2;
  request.context = 2;
  request.attention.heads_parallel = 2;
  check(request, {1e-2, 5e-2});
}
