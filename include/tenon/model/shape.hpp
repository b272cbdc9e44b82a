// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// What a block of a decoder is made of.
enum class block_form : std::uint8_t {
  gpt2,   ///< learned positions, LayerNorm, GELU, biases, the embedding tied to the head
  llama,  ///< rotary positions, RMSNorm, SwiGLU, no biases, a head of its own
};

constexpr const char* name_of(block_form form) noexcept {
  return form == block_form::gpt2 ? "gpt2" : "llama";
}

/// The width of the feed-forward layer when none is asked for: 4 x hidden for gpt2, 8/3 x hidden up
/// to a multiple of 64 for llama (three matrices then hold about as much as gpt2's two).
constexpr std::int64_t default_ffn(block_form form, std::int64_t hidden) noexcept {
  return form == block_form::gpt2 ? 4 * hidden : (8 * hidden + 191) / 192 * 64;
}

/// The sizes of a decoder. Zero key-value heads mean as many as heads, a zero ffn means
/// `default_ffn`; `completed` writes both out. A value of the compiler's too.
///
/// With experts, every `expert_stride`-th block has them in place of its feed-forward layer:
///
///   expert_stride 1    experts   experts   experts   experts
///   expert_stride 2    dense     experts   dense     experts
///
/// Thread-safety: a value.
struct decoder_shape {
  block_form form = block_form::llama;
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t kv_heads = 0;
  std::int64_t hidden = 384;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 256;
  double dropout = 0;
  std::int64_t experts = 0;            ///< of a block that has them; 0: all blocks are dense
  std::int64_t experts_per_token = 2;  ///< that each token chooses
  std::int64_t expert_stride = 1;      ///< of as many blocks, the last one has experts

  constexpr std::int64_t head_width() const noexcept { return hidden / heads; }
  constexpr std::int64_t kv_width() const noexcept { return kv_heads * head_width(); }
  constexpr bool has_biases() const noexcept { return form == block_form::gpt2; }
  constexpr bool is_tied() const noexcept { return form == block_form::gpt2; }
  constexpr bool has_experts(std::int64_t block) const noexcept {
    return experts > 0 && (block + 1) % expert_stride == 0;
  }
  constexpr std::int64_t expert_blocks() const noexcept {
    return experts > 0 ? layers / expert_stride : 0;
  }

  friend constexpr bool operator==(const decoder_shape&, const decoder_shape&) noexcept = default;
};

/// The shape with its two defaults written out.
constexpr decoder_shape completed(decoder_shape shape) noexcept {
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (shape.ffn == 0) shape.ffn = default_ffn(shape.form, shape.hidden);
  return shape;
}

/// The largest size of anything: a token, and so a row number of the embedding, is 32 bits wide.
inline constexpr std::int64_t largest_size = 2147483647;

namespace detail {

// Of the matrices of attention, and of one feed-forward layer or one expert.
constexpr std::int64_t attention_elements(const decoder_shape& shape) noexcept {
  return 2 * shape.hidden * (shape.hidden + shape.kv_width());
}
constexpr std::int64_t feed_forward_matrices(const decoder_shape& shape) noexcept {
  return (shape.form == block_form::gpt2 ? 2 : 3) * shape.hidden * shape.ffn;
}
// Of norms and biases; experts have none.
constexpr std::int64_t block_vectors(const decoder_shape& shape, bool of_experts) noexcept {
  std::int64_t vectors = 2 * shape.hidden;  // the gains of two norms
  if (shape.has_biases()) {
    vectors += 2 * shape.hidden;                           // the norms' biases
    vectors += 2 * shape.hidden + 2 * shape.kv_width();    // queries, output; keys, values
    if (!of_experts) vectors += shape.ffn + shape.hidden;  // up, down
  }
  return vectors;
}

}  // namespace detail

/// Parameters of one dense block that enter products: its matrices.
constexpr std::int64_t block_parameters_in_products(const decoder_shape& shape) noexcept {
  return detail::attention_elements(shape) + detail::feed_forward_matrices(shape);
}
/// Of one block with experts, those that the products of one token read: attention, the router, the
/// experts that it chooses.
constexpr std::int64_t expert_block_parameters_in_products(const decoder_shape& shape) noexcept {
  return detail::attention_elements(shape) + shape.hidden * shape.experts +
         shape.experts_per_token * detail::feed_forward_matrices(shape);
}

/// All parameters of one dense block: matrices, biases, gains of the norms.
constexpr std::int64_t block_parameters(const decoder_shape& shape) noexcept {
  return block_parameters_in_products(shape) + detail::block_vectors(shape, false);
}
/// Of one block with experts.
constexpr std::int64_t expert_block_parameters(const decoder_shape& shape) noexcept {
  return detail::attention_elements(shape) + shape.hidden * shape.experts +
         shape.experts * detail::feed_forward_matrices(shape) + detail::block_vectors(shape, true);
}

/// All parameters, each counted once: a tied embedding is one matrix.
constexpr std::int64_t parameters(const decoder_shape& shape) noexcept {
  const std::int64_t table = shape.vocabulary * shape.hidden;
  const std::int64_t dense = shape.layers - shape.expert_blocks();
  std::int64_t total = dense * block_parameters(shape) +
                       shape.expert_blocks() * expert_block_parameters(shape) + table;
  if (shape.form == block_form::gpt2) {
    total += shape.sequence * shape.hidden;  // learned positions
    total += 2 * shape.hidden;               // final norm, gain and bias
  } else {
    total += shape.hidden;  // final norm, gain
    total += table;         // head
  }
  return total;
}

/// The parameters that enter products: the blocks' matrices and the head (the tied embedding, used
/// as one). A lookup in the embedding and a position added are no products. Of experts, those that
/// a token chooses.
constexpr std::int64_t parameters_in_products(const decoder_shape& shape) noexcept {
  const std::int64_t dense = shape.layers - shape.expert_blocks();
  return dense * block_parameters_in_products(shape) +
         shape.expert_blocks() * expert_block_parameters_in_products(shape) +
         shape.vocabulary * shape.hidden;
}

/// Floating-point operations of a training step for one token, forward and backward:
/// 6 x parameters that enter products + 6 x layers x hidden x sequence. The second term is causal
/// attention: half of 12 x layers x hidden x sequence.
/// Source: J. Kaplan et al., Scaling laws for neural language models, 2020, section 2.1.
constexpr std::int64_t step_operations_per_token(const decoder_shape& shape) noexcept {
  return 6 * parameters_in_products(shape) + 6 * shape.layers * shape.hidden * shape.sequence;
}

/// The same for a step of `tokens` tokens; a large run's number does not fit 64 bits, so fp64.
constexpr double step_operations(const decoder_shape& shape, std::int64_t tokens) noexcept {
  return static_cast<double>(step_operations_per_token(shape)) * static_cast<double>(tokens);
}

/// Elements of the largest activation of `sequences` sequences on one rank that holds all of it;
/// experts have a row for each choice of a token.
/// `[sequences, sequence, largest width]`
constexpr std::int64_t largest_activation(const decoder_shape& shape,
                                          std::int64_t sequences) noexcept {
  std::int64_t width = shape.hidden + 2 * shape.kv_width();
  const std::int64_t choices = shape.experts > 0 ? shape.experts_per_token : 1;
  if (choices * shape.ffn > width) width = choices * shape.ffn;
  if (choices * shape.hidden > width) width = choices * shape.hidden;
  if (shape.vocabulary > width) width = shape.vocabulary;
  return sequences * shape.sequence * width;
}

namespace detail {

constexpr void check_size(const char* flag, std::int64_t size) {
  if (size < 1 || size > largest_size) {
    require(false, flag, " ", size, " is not a size; it is between 1 and ", largest_size, "; type ",
            flag, size < 1 ? " 1 or more" : " with a smaller number");
  }
}

/// The divisor of `whole` that is nearest to `wish`, the smaller of two.
constexpr std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wish) noexcept {
  if (wish >= whole) return whole;
  for (std::int64_t away = 0; away < wish; ++away) {
    if (whole % (wish - away) == 0) return wish - away;
    if (whole % (wish + away) == 0) return wish + away;
  }
  return 1;
}

}  // namespace detail

/// Throws bad_request with one sentence when a completed shape cannot be built: sizes that are not
/// positive, heads that do not divide hidden, key-value heads that do not divide heads, rotary
/// positions on an odd head width, more choices than experts, experts in no block, a count of
/// parameters beyond 64 bits.
constexpr void check(const decoder_shape& shape) {
  detail::check_size("--layers", shape.layers);
  detail::check_size("--heads", shape.heads);
  detail::check_size("--kv-heads", shape.kv_heads);
  detail::check_size("--hidden", shape.hidden);
  detail::check_size("--ffn", shape.ffn);
  detail::check_size("--vocabulary", shape.vocabulary);
  detail::check_size("--sequence", shape.sequence);
  if (!(shape.dropout >= 0 && shape.dropout < 1)) {
    require(false, "--dropout ", shape.dropout,
            " is not a probability; it is at least 0 and less than 1; type --dropout 0.1");
  }
  if (shape.hidden % shape.heads != 0) {
    require(false, "--heads ", shape.heads, " does not divide --hidden ", shape.hidden,
            "; every head has the same width, so heads must divide hidden; type --heads ",
            detail::nearest_divisor(shape.hidden, shape.heads));
  }
  if (shape.heads % shape.kv_heads != 0) {
    require(false, "--kv-heads ", shape.kv_heads, " does not divide --heads ", shape.heads,
            "; every key-value head serves as many heads, so kv-heads must divide heads; type "
            "--kv-heads ",
            detail::nearest_divisor(shape.heads, shape.kv_heads));
  }
  if (shape.form == block_form::llama && shape.head_width() % 2 != 0) {
    require(false, "--hidden ", shape.hidden, " over --heads ", shape.heads,
            " makes heads of width ", shape.head_width(),
            "; rotary positions turn pairs of elements, so the width must be even; type --hidden ",
            2 * shape.hidden, " or --form gpt2");
  }
  if (shape.experts < 0 || shape.experts > largest_size) {
    require(false, "--experts ", shape.experts, " is not a number of experts; it is between 0 and ",
            largest_size, ", 0 for none; type --experts 8");
  }
  if (shape.experts > 0) {
    if (shape.experts_per_token < 1 || shape.experts_per_token > shape.experts) {
      require(false, "--experts-per-token ", shape.experts_per_token, " of --experts ",
              shape.experts, " cannot be chosen; it is between 1 and ", shape.experts,
              "; type --experts-per-token ", shape.experts < 2 ? 1 : 2);
    }
    if (shape.expert_stride < 1 || shape.expert_stride > shape.layers) {
      require(false, "--expert-stride ", shape.expert_stride, " leaves no block of --layers ",
              shape.layers, " with experts; it is between 1 and ", shape.layers,
              "; type --expert-stride 1");
    }
  }
  // In fp64, because the counts themselves may not fit; every later count is far below 2^63.
  const auto wide = [](std::int64_t size) { return static_cast<double>(size); };
  const double layers_of_ffn = shape.experts > 1 ? wide(shape.experts) : 1;
  const double block =
      wide(shape.hidden) * (4 * wide(shape.hidden) + 3 * layers_of_ffn * wide(shape.ffn) +
                            wide(shape.experts) + wide(shape.sequence) + 8);
  const double edges = wide(shape.hidden) * (2 * wide(shape.vocabulary) + wide(shape.sequence));
  if (wide(shape.layers) * block + edges > 0x1p59) {
    require(false, "--layers ", shape.layers, " of --hidden ", shape.hidden, " and --ffn ",
            shape.ffn, " make more than 2^59 parameters; fewer are allowed; type smaller sizes");
  }
}

}  // namespace tenon::inline v0
