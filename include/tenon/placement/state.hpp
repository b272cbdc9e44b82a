// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "tenon/placement/dims.hpp"

namespace tenon::inline v0 {

/// How the terms of a partial value are put together.
namespace reduction {

struct sum {
  static constexpr std::string_view name = "sum";
};
struct maximum {
  static constexpr std::string_view name = "maximum";
};
/// Pairs (maximum, sum of exponentials) and their merge.
struct log_sum_exp {
  static constexpr std::string_view name = "log_sum_exp";
};

}  // namespace reduction

struct replicated;

/// Each rank of the axis holds a piece of `Dim`.
template <tensor_dim Dim>
struct sharded {
  static constexpr std::string_view name = "sharded";
  using gradient = sharded;
  using dim = Dim;
};

/// The value is the sum (or the maximum, ...) over the ranks of the axis of what each holds. Only
/// the sum has a gradient.
template <class Op>
struct partial_of {
  static constexpr std::string_view name = "partial";
  using gradient = std::conditional_t<std::is_same_v<Op, reduction::sum>, replicated, void>;
  using operation = Op;
};
using partial = partial_of<reduction::sum>;

/// All ranks hold the same value, and each uses it differently: their gradients must be summed.
struct replicated {
  static constexpr std::string_view name = "replicated";
  using gradient = partial;
};

/// All ranks hold the same value and do the same work with it: their gradients are equal already.
struct invariant {
  static constexpr std::string_view name = "invariant";
  using gradient = invariant;
};

template <class S>
inline constexpr bool is_sharded = false;
template <class D>
inline constexpr bool is_sharded<sharded<D>> = true;

template <class S>
inline constexpr bool is_partial = false;
template <class Op>
inline constexpr bool is_partial<partial_of<Op>> = true;

/// One of the four states.
template <class S>
concept state =
    is_sharded<S> || is_partial<S> || std::same_as<S, replicated> || std::same_as<S, invariant>;

/// The state of the gradient of a tensor in state `S`.
template <state S>
using gradient_state = typename S::gradient;

/// True when a state cuts the dim.
template <state S, class D>
inline constexpr bool cuts = std::is_same_v<S, sharded<D>>;

}  // namespace tenon::inline v0
