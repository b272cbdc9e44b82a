// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/shape.hpp"

#include <boost/test/unit_test.hpp>

#include "refusal.hpp"

using namespace tenon;

namespace {

// The published sizes of four models are the judges of the counts.
constexpr decoder_shape gpt2_small = completed({.form = block_form::gpt2,
                                                .layers = 12,
                                                .heads = 12,
                                                .hidden = 768,
                                                .vocabulary = 50257,
                                                .sequence = 1024});
constexpr decoder_shape gpt2_xl = completed({.form = block_form::gpt2,
                                             .layers = 48,
                                             .heads = 25,
                                             .hidden = 1600,
                                             .vocabulary = 50257,
                                             .sequence = 1024});
constexpr decoder_shape llama2_7b = completed({.layers = 32,
                                               .heads = 32,
                                               .hidden = 4096,
                                               .ffn = 11008,
                                               .vocabulary = 32000,
                                               .sequence = 4096});
constexpr decoder_shape llama3_8b = completed({.layers = 32,
                                               .heads = 32,
                                               .kv_heads = 8,
                                               .hidden = 4096,
                                               .ffn = 14336,
                                               .vocabulary = 128256,
                                               .sequence = 8192});
static_assert(parameters(gpt2_small) == 124'439'808);
static_assert(parameters(gpt2_xl) == 1'557'611'200);
static_assert(parameters(llama2_7b) == 6'738'415'616);
static_assert(parameters(llama3_8b) == 8'030'261'248);

static_assert(gpt2_small.ffn == 3072 && gpt2_small.kv_heads == 12 && gpt2_small.head_width() == 64);
static_assert(llama3_8b.head_width() == 128 && llama3_8b.kv_width() == 1024);
static_assert(default_ffn(block_form::llama, 384) == 1024);
static_assert(default_ffn(block_form::llama, 385) == 1088);
static_assert(default_ffn(block_form::llama, 1) == 64);
static_assert(default_ffn(block_form::llama, 4096) == 10944);

// The matrices of gpt2 are 12 hidden^2 a block; the tied embedding enters the head's product.
static_assert(parameters_in_products(gpt2_small) == 12 * 12 * 768 * 768 + 50257 * 768);
// Of llama all parameters do but the norms and the lookup table.
static_assert(parameters(llama2_7b) - parameters_in_products(llama2_7b) ==
              65 * 4096 + 32000 * 4096);
static_assert(step_operations_per_token(gpt2_small) == 6 * 123'532'032 + 6 * 12 * 768 * 1024);
static_assert(step_operations_per_token(llama3_8b) ==
              6 * 7'504'658'432 + std::int64_t{6} * 32 * 4096 * 8192);

// Mixtral 8x7B, as published: 46.7e9 parameters, of which a token uses 12.9e9.
constexpr decoder_shape mixtral = completed({.form = block_form::llama,
                                             .layers = 32,
                                             .heads = 32,
                                             .kv_heads = 8,
                                             .hidden = 4096,
                                             .ffn = 14336,
                                             .vocabulary = 32000,
                                             .sequence = 32768,
                                             .experts = 8});
static_assert(parameters(mixtral) == 46'702'792'704);
static_assert(parameters_in_products(mixtral) + 65 * 4096 + 32000 * 4096 == 12'879'925'248);
static_assert(mixtral.expert_blocks() == 32 && mixtral.has_experts(0));
// Every third of eight blocks: 2 and 5.
constexpr decoder_shape every_third =
    completed({.layers = 8, .experts = 4, .experts_per_token = 1, .expert_stride = 3});
static_assert(every_third.expert_blocks() == 2 && every_third.has_experts(2) &&
              every_third.has_experts(5) && !every_third.has_experts(7));
static_assert(parameters(every_third) - parameters(completed({.layers = 8})) ==
              2 * (3 * 3 * 384 * 1024 + 384 * 4));
static_assert(parameters_in_products(every_third) ==
              parameters_in_products(completed({.layers = 8})) + 2 * 384 * 4);
// Experts have no biases.
static_assert(parameters(completed({.form = block_form::gpt2, .layers = 1, .experts = 2})) -
                  parameters(completed({.form = block_form::gpt2, .layers = 1})) ==
              2 * 384 * 1536 + 384 * 2 - 1536 - 384);
static_assert(largest_activation(completed({.ffn = 5000, .experts = 4}), 3) == 3 * 256 * 10000);

// T-24 (a): the logits of 64 sequences do not fit 32 bits.
static_assert(largest_activation(gpt2_small, 64) == 3'293'642'752);
static_assert(largest_activation(llama2_7b, 1) == std::int64_t{4096} * 32000);
static_assert(largest_activation(completed({.ffn = 5000}), 3) == 3 * 256 * 5000);
static_assert(largest_activation(completed({.ffn = 1, .vocabulary = 2}), 3) == 3 * 256 * 3 * 384);

// A legal shape passes in the compiler, and so may be a template argument.
constexpr bool legal(decoder_shape shape) {
  check(shape);
  return true;
}
static_assert(legal(gpt2_small) && legal(gpt2_xl) && legal(llama2_7b) && legal(llama3_8b));
static_assert(legal(completed({})) && legal(completed({.heads = 1, .hidden = 2, .sequence = 1})));
static_assert(legal(completed({.form = block_form::gpt2, .heads = 3, .hidden = 3})));

template <decoder_shape Shape>
constexpr std::int64_t of_template = parameters(Shape);
static_assert(of_template<gpt2_small> == 124'439'808);

std::string refused(decoder_shape shape) {
  return refusal_of([&] { check(shape); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_are_positive) {
  BOOST_TEST(
      refused(completed({.layers = 0})) ==
      "2: --layers 0 is not a size; it is between 1 and 2147483647; type --layers 1 or more");
  BOOST_TEST(refused(completed({.hidden = -384})) ==
             "2: --hidden -384 is not a size; it is between 1 and 2147483647; type --hidden 1 or "
             "more");
  BOOST_TEST(refused(completed({.sequence = std::int64_t{1} << 31})) ==
             "2: --sequence 2147483648 is not a size; it is between 1 and 2147483647; type "
             "--sequence with a smaller number");
  decoder_shape each[7] = {completed({}), completed({}), completed({}), completed({}),
                           completed({}), completed({}), completed({})};
  each[0].layers = each[1].heads = each[2].kv_heads = each[3].hidden = each[4].ffn =
      each[5].vocabulary = each[6].sequence = 0;
  for (const auto& shape : each)
    BOOST_TEST(refused(shape).find(" 0 is not a size") != std::string::npos);
  // A shape that was not completed is refused, never taken with heads of its own.
  BOOST_TEST(refused({}).find("--kv-heads 0 is not a size") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(heads_divide) {
  BOOST_TEST(refused(completed({.heads = 5})) ==
             "2: --heads 5 does not divide --hidden 384; every head has the same width, so heads "
             "must divide hidden; type --heads 4");
  BOOST_TEST(refused(completed({.heads = 400})).find("type --heads 384") != std::string::npos);
  BOOST_TEST(refused(completed({.heads = 2, .hidden = 7})).find("type --heads 1") !=
             std::string::npos);
  BOOST_TEST(refused(completed({.heads = 7, .hidden = 64})).find("type --heads 8") !=
             std::string::npos);
  BOOST_TEST(
      refused(completed({.heads = 6, .kv_heads = 4})) ==
      "2: --kv-heads 4 does not divide --heads 6; every key-value head serves as many heads, "
      "so kv-heads must divide heads; type --kv-heads 3");
  BOOST_TEST(refused(completed({.heads = 6, .hidden = 30})) ==
             "2: --hidden 30 over --heads 6 makes heads of width 5; rotary positions turn pairs of "
             "elements, so the width must be even; type --hidden 60 or --form gpt2");
  BOOST_TEST(refused(completed({.form = block_form::gpt2, .heads = 6, .hidden = 30})) ==
             "it was accepted");
}

BOOST_AUTO_TEST_CASE(experts_can_be_chosen_and_are_somewhere) {
  BOOST_TEST(refused(completed({.experts = 4, .experts_per_token = 5})) ==
             "2: --experts-per-token 5 of --experts 4 cannot be chosen; it is between 1 and 4; "
             "type --experts-per-token 2");
  BOOST_TEST(refused(completed({.experts = 4, .experts_per_token = 0}))
                 .find("--experts-per-token 0 of --experts 4 cannot be chosen") !=
             std::string::npos);
  BOOST_TEST(refused(completed({.experts = -1})).find("--experts -1") != std::string::npos);
  BOOST_TEST(refused(completed({.layers = 3, .experts = 2, .expert_stride = 4})) ==
             "2: --expert-stride 4 leaves no block of --layers 3 with experts; it is between 1 and "
             "3; type --expert-stride 1");
  BOOST_TEST(refused(completed({.experts = 2, .expert_stride = 0})).find("--expert-stride 0") !=
             std::string::npos);
  // Without experts the other two mean nothing.
  BOOST_TEST(refused(completed({.experts_per_token = 0, .expert_stride = 0})) == "it was accepted");
  BOOST_TEST(
      refused(completed({.experts = 2'000'000'000})).find("make more than 2^59 parameters") ==
      std::string::npos);
  BOOST_TEST(refused(completed({.layers = 1000, .experts = 2'000'000'000}))
                 .find("make more than 2^59 parameters") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(dropout_and_counts_have_limits) {
  BOOST_TEST(refused(completed({.dropout = 1})).find("--dropout 1") != std::string::npos);
  BOOST_TEST(refused(completed({.dropout = -0.5})).find("--dropout -0.5") != std::string::npos);
  BOOST_TEST(refused(completed({.dropout = 0.0 / 0.0})).find("--dropout") != std::string::npos);
  BOOST_TEST(refused(completed({.layers = 2'000'000, .heads = 1, .hidden = 500'000})) ==
             "2: --layers 2000000 of --hidden 500000 and --ffn 1333376 make more than 2^59 "
             "parameters; fewer are allowed; type smaller sizes");
  // Just below the limit no count has wrapped around.
  constexpr decoder_shape huge = completed({.layers = 140'000, .heads = 1, .hidden = 500'000});
  static_assert(legal(huge));
  static_assert(parameters(huge) > std::int64_t{1} << 58);
  static_assert(step_operations_per_token(huge) > 6 * parameters_in_products(huge));
  static_assert(step_operations(huge, 1'000'000'000) > 1e27);
}
