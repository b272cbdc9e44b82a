// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "tenon/parallel/run_strategy.hpp"

namespace tenon::inline v0 {

/// The kinds of policies. A strategy has at most one policy of each; the sentence that says so
/// belongs to the kind, so that a kind of a user's own brings its sentence along.
namespace policy_kind {

struct data {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two data policies were given; keep one");
  }
};
struct context {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two context policies were given; keep one");
  }
};
struct tensor {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two tensor policies were given; keep one");
  }
};
struct expert {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two expert policies were given; keep one");
  }
};
struct sums {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two sums policies were given; keep one");
  }
};
struct pipeline {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two pipeline policies were given; keep one");
  }
};
struct recompute {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two recompute policies were given; keep one");
  }
};

}  // namespace policy_kind

/// A type that may stand in a strategy: it has a kind, and sets the fields that it fixes.
template <class P>
concept strategy_policy = requires(run_strategy& run) {
  typename P::kind;
  P::kind::template keep_one<1>();
  { P::set(run) } -> std::same_as<void>;
};

/// Data parallel over `Extent` ranks, which divide what `Divided` says; or, with `Shard` given,
/// groups of `Shard` of them do, and each group holds a copy.
template <int Extent, shards Divided = shards::none, int Shard = 0>
struct data_parallel {
  static_assert(Extent >= 1, "data_parallel: the extent is not positive; give 1 or more ranks");
  static_assert(Shard == 0 || (Shard > 0 && Extent % Shard == 0),
                "data_parallel: the ranks that divide parameters do not divide the extent; give a "
                "divisor of it");
  static_assert(Shard == 0 || Divided != shards::none,
                "data_parallel: a number of dividing ranks was given and nothing to divide; give "
                "shards::parameters, or no number");
  using kind = policy_kind::data;
  static constexpr void set(run_strategy& run) noexcept {
    run.data = Extent;
    run.shards = Divided;
    run.data_shard = Shard;
  }
};

/// A pipeline of `Stages` stages that runs in the order of a schedule, with so many chunks of
/// layers on each stage.
template <int Stages, pipeline_schedule Schedule = pipeline_schedule::one_forward_one_backward,
          int Chunks = 1>
struct pipeline_parallel {
  static_assert(Stages >= 1,
                "pipeline_parallel: the extent is not positive; give 1 or more stages");
  static_assert(can_be_scheduled(Schedule, {Stages, 1, Chunks}),
                "pipeline_parallel: the schedule does not take so many chunks; interleaved alone "
                "has more than one");
  using kind = policy_kind::pipeline;
  static constexpr void set(run_strategy& run) noexcept {
    run.pipeline = Stages;
    run.schedule = Schedule;
    run.chunks = Chunks;
  }
};

/// Parts of blocks run forward once more in backward.
template <recompute What>
struct recomputing {
  using kind = policy_kind::recompute;
  static constexpr void set(run_strategy& run) noexcept { run.recompute = What; }
};

/// Option of `tensor_parallel`: between the products the sequence is cut on the tensor axis.
/// Source: V. Korthikanti et al., Reducing activation recomputation in large transformer models,
/// MLSys 2023.
struct split_sequence {
  static constexpr void set(run_strategy& run) noexcept { run.split_sequence = true; }
};

/// Tensor parallel over `Extent` ranks.
/// Source: M. Shoeybi et al., Megatron-LM, 2019.
template <int Extent, class... Options>
struct tensor_parallel {
  static_assert(Extent >= 1, "tensor_parallel: the extent is not positive; give 1 or more ranks");
  static_assert((std::same_as<Options, split_sequence> && ...),
                "tensor_parallel: this option is not known; the one there is is split_sequence");
  static_assert(sizeof...(Options) <= 1,
                "tensor_parallel: split_sequence was given twice; keep one");
  using kind = policy_kind::tensor;
  static constexpr void set(run_strategy& run) noexcept {
    run.tensor = Extent;
    run.tensor_grid = 1;
    run.split_sequence = false;
    (Options::set(run), ...);
  }
};

/// Tensor parallel over a square of `Side` x `Side` ranks.
/// Source: Q. Xu and others, Optimus, 2021.
template <int Side>
struct tensor_grid {
  static_assert(Side >= 1, "tensor_grid: the side is not positive; give 1 or more ranks");
  using kind = policy_kind::tensor;
  static constexpr void set(run_strategy& run) noexcept {
    run.tensor = 1;
    run.tensor_grid = Side;
    run.split_sequence = false;
  }
};

/// How attention exchanges what ranks of the context axis must see of one another: options of
/// `context_parallel`. See `causal_attention`.
namespace exchange {

/// Keys and values go round all ranks.
struct ring {
  template <int Extent>
  static constexpr void set(run_strategy& run) noexcept {
    run.heads_parallel = 1;
  }
};
/// All ranks exchange tokens for heads.
struct ulysses {
  template <int Extent>
  static constexpr void set(run_strategy& run) noexcept {
    run.heads_parallel = Extent;
  }
};
/// `HeadsParallel` ranks next to one another exchange heads; the ring is of the rest.
template <int HeadsParallel>
struct grid {
  static_assert(HeadsParallel >= 1, "exchange::grid: the extent is not positive; give 1 or more");
  template <int Extent>
  static constexpr void set(run_strategy& run) noexcept {
    static_assert(Extent % HeadsParallel == 0,
                  "exchange::grid: its extent does not divide that of the context axis");
    run.heads_parallel = HeadsParallel;
  }
};

}  // namespace exchange

/// Option of `context_parallel`: members of an inner ring.
template <int Members>
struct ring_window {
  static_assert(Members >= 1, "ring_window: the number is not positive; give 1 or more");
  template <int Extent>
  static constexpr void set(run_strategy& run) noexcept {
    run.ring_window = Members;
  }
};

/// Option of `context_parallel`: the order of the tokens.
template <token_order_kind Order>
struct tokens_in {
  template <int Extent>
  static constexpr void set(run_strategy& run) noexcept {
    run.order = Order;
  }
};

/// A type that may be an option of `context_parallel` over `Extent` ranks.
template <class Option, int Extent>
concept context_option = requires(run_strategy& run) {
  Option::template set<Extent>(run);
};

/// Context parallel over `Extent` ranks; a ring in zigzag order unless options say otherwise.
/// Source: D. Gu and others, LoongTrain, 2024.
template <int Extent, class... Options>
struct context_parallel {
  static_assert(Extent >= 1, "context_parallel: the extent is not positive; give 1 or more ranks");
  static_assert((context_option<Options, Extent> && ...),
                "context_parallel: this option is not known; there are exchange::ring, "
                "exchange::ulysses, exchange::grid, ring_window and tokens_in");
  using kind = policy_kind::context;
  static constexpr void set(run_strategy& run) noexcept {
    run.context = Extent;
    run.heads_parallel = 1;
    run.ring_window = 0;
    run.order = token_order_kind::zigzag;
    (Options::template set<Extent>(run), ...);
  }
};

/// Expert parallel over `Extent` ranks: the experts lie on them, and to everything else they are
/// more data ranks.
/// Source: D. Lepikhin and others, GShard, 2020.
template <int Extent>
struct expert_parallel {
  static_assert(Extent >= 1, "expert_parallel: the extent is not positive; give 1 or more ranks");
  using kind = policy_kind::expert;
  static constexpr void set(run_strategy& run) noexcept { run.expert = Extent; }
};

/// The order of the sums over ranks.
template <sum_order Order>
struct sums {
  using kind = policy_kind::sums;
  static constexpr void set(run_strategy& run) noexcept { run.sums = Order; }
};

namespace detail {

template <class Kind, class... Policies>
inline constexpr int policies_of_kind = (0 + ... +
                                         (std::same_as<typename Policies::kind, Kind> ? 1 : 0));

}  // namespace detail

/// A strategy that is fixed when the program is compiled: policies recognised by their kind, in
/// any order, each kind at most once.
///
///   using plan = strategy<tensor_parallel<4, split_sequence>, data_parallel<2>>;
///   laid_out(plan::values(), ranks);                 // the same check that the flags go through
///
/// What no policy fixes keeps its default, or the value that the run gives: `plan::over(flags)`.
/// Thread-safety: no state.
template <class... Policies>
class strategy {
  static_assert((strategy_policy<Policies> && ...),
                "strategy: one of the types given is no policy; a policy has a kind and a set");
  static constexpr bool one_of_each_kind =
      ((Policies::kind::template keep_one<
            detail::policies_of_kind<typename Policies::kind, Policies...>>(),
        true) &&
       ...);
  static_assert(one_of_each_kind, "strategy: two policies of a kind were given; keep one");

 public:
  /// True when a policy of the kind is given.
  template <class Kind>
  static constexpr bool fixes = detail::policies_of_kind<Kind, Policies...> != 0;

  /// `run` with the fields of the policies given put over its own.
  static constexpr run_strategy over(run_strategy run) noexcept {
    (Policies::set(run), ...);
    return run;
  }

  /// The fields of the policies given, and the defaults.
  static constexpr run_strategy values() noexcept { return over(run_strategy{}); }
};

}  // namespace tenon::inline v0
