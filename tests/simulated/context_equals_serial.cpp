// SPDX-License-Identifier: Apache-2.0
// Training with each sequence on several ranks gives what one rank gives, and sends and holds what
// was predicted: ring, Ulysses and the grid of both, in either order, documents packed or not.
#include <boost/test/unit_test.hpp>

#include "training.hpp"

using namespace tenon_test;

namespace {

// Contexts beside other axes, and how attention works over them.
struct layout_of_contexts {
  int data = 1;
  int context = 1;
  int tensor = 1;
  bool split_sequence = false;
  int heads_parallel = 1;
  int ring_window = 0;
  token_order_kind order = token_order_kind::zigzag;
};
constexpr auto contiguous = token_order_kind::contiguous;

void check_contexts(training_request request, const std::vector<layout_of_contexts>& layouts) {
  const training_outcome serial = run_training(request);
  for (const auto& fault : serial.faults) BOOST_ERROR("one rank: " << fault);
  for (const auto& one : layouts) {
    request.data = one.data;
    request.context = one.context;
    request.tensor = one.tensor;
    request.split_sequence = one.split_sequence;
    request.attention = {one.order, one.heads_parallel, one.ring_window};
    BOOST_TEST_CONTEXT(text_of(request)) {
      const training_outcome parallel = run_training(request);
      for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
      BOOST_TEST(missed_bars(compare(serial, parallel)) == "");
    }
  }
}

training_request request_of(block_form form, std::int64_t sequence) {
  training_request request;
  request.shape = small_shape(form);
  request.shape.sequence = sequence;
  request.batch = 3;
  request.steps = 3;
  return request;
}

// Sequences of 13: no extent below divides them. 4 heads with 2 kv heads: Ulysses over 4 and 8
// gives a kv head to several ranks, and no head to some.
const std::vector<layout_of_contexts> every_form = {
    {.context = 2},
    {.context = 3, .order = contiguous},
    {.context = 4, .ring_window = 2},
    {.context = 4, .heads_parallel = 4},
    {.context = 4, .heads_parallel = 2, .order = contiguous},
    {.context = 6, .heads_parallel = 3, .ring_window = 1},
    {.context = 8, .heads_parallel = 2, .ring_window = 2},
    {.context = 8, .heads_parallel = 8},
    {.data = 2, .context = 2, .tensor = 2},
    {.data = 2, .context = 2, .tensor = 2, .split_sequence = true, .heads_parallel = 2},
    {.context = 4, .tensor = 2, .split_sequence = true, .heads_parallel = 2},
    {.context = 2, .tensor = 3, .heads_parallel = 2}};

}  // namespace

BOOST_AUTO_TEST_CASE(gpt2) { check_contexts(request_of(block_form::gpt2, 13), every_form); }
BOOST_AUTO_TEST_CASE(llama) { check_contexts(request_of(block_form::llama, 13), every_form); }

BOOST_AUTO_TEST_CASE(fewer_tokens_than_ranks) {
  check_contexts(request_of(block_form::llama, 5),
                 {{.context = 8}, {.context = 8, .heads_parallel = 4}, {.context = 6}});
}

// Dropout drops the same elements, and masked targets count alike.
BOOST_AUTO_TEST_CASE(dropout_and_masks) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form, 11);
    request.shape.dropout = 0.2;
    request.masked = 1;
    check_contexts(request, {{.context = 4},
                             {.context = 4, .heads_parallel = 2},
                             {.data = 2, .context = 2, .tensor = 2, .split_sequence = true}});
  }
}

// A step on packed sequences is the mean over their documents, each trained by itself: there a mask
// of the targets says what counts, and no document is packed.
BOOST_AUTO_TEST_CASE(packed_is_the_mean_over_documents) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request packed = request_of(form, 17);
    packed.shape.vocabulary = 5;
    packed.steps = 1;
    packed.masked = 1;
    packed.document_separator = 3;
    training_request apart = packed;
    apart.document_separator = -1;
    apart.documents_of = packed.batch;
    apart.separator_of_documents = 3;
    apart.batch = documents_in(packed, 3, packed.batch);
    BOOST_TEST(apart.batch > 2 * packed.batch);
    const training_outcome alone = run_training(apart);
    const training_outcome together = run_training(packed);
    BOOST_TEST(missed_bars(compare(alone, together)) == "");
    // And not what one gets without packing.
    packed.document_separator = -1;
    BOOST_TEST(compare(alone, run_training(packed)).gradients > 1e-3);
  }
}

// Tokens 0 .. 4: about every fifth ends a document.
BOOST_AUTO_TEST_CASE(packed_documents_over_contexts) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request = request_of(form, 17);
    request.shape.vocabulary = 5;
    request.document_separator = 3;
    check_contexts(request, {{.context = 3},
                             {.context = 4, .ring_window = 2, .order = contiguous},
                             {.context = 4, .heads_parallel = 2},
                             {.data = 2, .context = 2, .tensor = 2, .split_sequence = true}});
  }
}
