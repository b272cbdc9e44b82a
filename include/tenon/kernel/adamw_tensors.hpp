// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/kernel/optimizer.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"

// The step of many tensors in a few launches, none of which comes back to the host: a device has
// hundreds of small tensors, and what changes from step to step is read from memory.
namespace tenon::inline v0::kernel {

/// One tensor of a step, see `adamw`: all arrays [length], in the rank's memory.
template <class S, element Copy = bf16>
struct adamw_tensor {
  S* weights = nullptr;
  S* first = nullptr;
  S* second = nullptr;
  S* gradient = nullptr;
  Copy* copy = nullptr;  ///< takes the new weights; may be null
  std::int64_t length = 0;
  double weight_decay = 0;
  bool counted = true;  ///< its gradient enters the norm
};

namespace programs {

/// The tensors of a launch and, for each program, which block of which tensor is its own.
template <class S, element Copy>
struct tensor_blocks {
  struct block {
    std::int32_t tensor;
    std::int32_t number;  ///< within the tensor
  };
  const adamw_tensor<S, Copy>* tensors;
  const block* blocks;

  struct part {
    const adamw_tensor<S, Copy>& of;
    std::int64_t begin;
    std::int64_t size;
  };
  TENON_BOTH part at(std::int64_t i) const {
    const block own = blocks[i];
    const adamw_tensor<S, Copy>& tensor = tensors[own.tensor];
    const std::int64_t begin = own.number * detail::flat_block;
    const std::int64_t left = tensor.length - begin;
    return {tensor, begin, left < detail::flat_block ? left : detail::flat_block};
  }
};

/// A block of the step.
template <class S, element Copy>
struct adamw_all {
  static constexpr std::string_view name = "adamw_all";
  tensor_blocks<S, Copy> all;
  const adamw_step_numbers* numbers;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const auto [t, begin, size] = all.at(i);
    const detail::adamw_rule<S> rule(*numbers, t.weight_decay);
    detail::run_adamw(team, size, rule, t.weights + begin, t.first + begin, t.second + begin,
                      static_cast<const S*>(t.gradient) + begin,
                      t.copy == nullptr ? t.copy : t.copy + begin);
  }
};

/// The sum of the squares of a block of gradients.
template <class S, element Copy>
struct gradient_squares {
  static constexpr std::string_view name = "gradient_squares";
  tensor_blocks<S, Copy> all;
  double* sums;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const auto [t, begin, size] = all.at(i);
    const double sum = team.template sum_of<double>(
        t.counted ? size : 0,
        [](S value) { return static_cast<double>(value) * static_cast<double>(value); },
        static_cast<const S*>(t.gradient) + begin);
    team.once([&] { sums[i] = sum; });
  }
};

/// A block of gradients, times a number in memory.
template <class S, element Copy>
struct scale_gradients {
  static constexpr std::string_view name = "scale_gradients";
  tensor_blocks<S, Copy> all;
  const double* factor;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const auto [t, begin, size] = all.at(i);
    team.apply(
        size, [by = static_cast<S>(*factor)](S& value) { value = value * by; }, t.gradient + begin);
  }
};

/// What clips a gradient, from the sum of its squares.
struct clip {
  static constexpr std::string_view name = "clip";
  static constexpr int threads = 32;
  const double* squares;
  double largest;
  double* factor;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    const double norm = std::sqrt(*squares);
    team.once([&] { *factor = norm > largest ? largest / norm : 1.0; });
  }
};

}  // namespace programs

/// The tensors of a step. The memory that they name must outlive this; what lies in it may change.
/// Thread-safety: none; it belongs to one rank's thread.
template <class S, element Copy = bf16>
class adamw_tensors {
 public:
  using tensor_type = adamw_tensor<S, Copy>;

  adamw_tensors() = default;
  explicit adamw_tensors(std::span<const tensor_type> tensors) {
    std::vector<block> blocks;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::int64_t b = 0; b < detail::flat_blocks(tensors[t].length); ++b) {
        blocks.push_back({static_cast<std::int32_t>(t), static_cast<std::int32_t>(b)});
      }
    }
    count_ = static_cast<std::int64_t>(blocks.size());
    tensors_ = in_memory(std::as_bytes(tensors));
    blocks_ = in_memory(std::as_bytes(std::span<const block>(blocks)));
    sums_ = buffer<double>(count_);
  }

  /// One step with *numbers, which lie in the rank's memory.
  void step(const adamw_step_numbers* numbers) const {
    for_each_team(count_, shape, programs::adamw_all<S, Copy>{all(), numbers});
  }
  /// *sum, in the rank's memory, becomes the sum of the squares of the gradients that count.
  void sum_of_squares(double* sum) {
    for_each_team(count_, shape, programs::gradient_squares<S, Copy>{all(), sums_.data()});
    sum_into(sum, std::span<const double>(sums_.span()));
  }
  /// *factor = largest / norm where the norm, the root of *squares, is larger than that; else 1.
  /// Both numbers lie in the rank's memory.
  static void set_clip_factor(double* factor, const double* squares, double largest) {
    for_each_team(1, {}, programs::clip{squares, largest, factor});
  }
  /// All gradients times *factor, which lies in the rank's memory.
  void scale_gradients(const double* factor) const {
    for_each_team(count_, shape, programs::scale_gradients<S, Copy>{all(), factor});
  }

 private:
  using table = programs::tensor_blocks<S, Copy>;
  using block = typename table::block;
  static constexpr launch shape{.elements_each = detail::flat_block};

  static buffer<std::byte> in_memory(std::span<const std::byte> bytes) {
    buffer<std::byte> here(static_cast<std::int64_t>(bytes.size()));
    copy_in(here.span(), bytes);
    return here;
  }
  table all() const {
    return {reinterpret_cast<const tensor_type*>(tensors_.data()),
            reinterpret_cast<const block*>(blocks_.data())};
  }

  std::int64_t count_ = 0;
  buffer<std::byte> tensors_;  // as the programs read them
  buffer<std::byte> blocks_;
  buffer<double> sums_;  // of the blocks
};

}  // namespace tenon::inline v0::kernel
