// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <numeric>
#include <string>

#include "tenon/base/check.hpp"
#include "tenon/communicate/sum_order.hpp"
#include "tenon/mesh/axis.hpp"
#include "tenon/mesh/mesh.hpp"

namespace tenon::inline v0 {

/// How a run is spread over ranks, as values: what the programs' flags set and what the trainer
/// reads. A field that changes when, how often or in what order moves run stands here, never in a
/// type.
/// Thread-safety: a value.
struct run_strategy {
  int data = 0;                     ///< ranks on the data axis; 0 takes the ranks that are left
  int tensor = 1;                   ///< ranks on the tensor axis
  bool split_sequence = false;      ///< between the products, cut the sequence on the tensor axis
  sum_order sums = sum_order::any;  ///< order of the sums over ranks

  friend constexpr bool operator==(const run_strategy&, const run_strategy&) noexcept = default;
};

/// The kinds of policies. A strategy has at most one policy of each; the sentence that says so
/// belongs to the kind, so that a kind of a user's own brings its sentence along.
namespace policy_kind {

struct data {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two data policies were given; keep one");
  }
};
struct tensor {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two tensor policies were given; keep one");
  }
};
struct sums {
  template <int Given>
  static constexpr void keep_one() {
    static_assert(Given <= 1, "strategy: two sums policies were given; keep one");
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

/// Data parallel over `Extent` ranks.
template <int Extent>
struct data_parallel {
  static_assert(Extent >= 1, "data_parallel: the extent is not positive; give 1 or more ranks");
  using kind = policy_kind::data;
  static constexpr void set(run_strategy& run) noexcept { run.data = Extent; }
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
    run.split_sequence = false;
    (Options::set(run), ...);
  }
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

/// A strategy that is fixed when the program is compiled: policies recognised by their kind, in any
/// order, each kind at most once.
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

/// The extents as the user types them: "--data 2 --tensor 4"; what is left open is not named.
inline std::string extents_text(const run_strategy& run) {
  const std::string tensor = joined("--tensor ", run.tensor);
  return run.data == 0 ? tensor : joined("--data ", run.data, " ", tensor);
}

/// The number of ranks that the strategy needs, or a divisor of it when the data extent is open.
constexpr std::int64_t ranks_needed(const run_strategy& run) noexcept {
  return std::int64_t{run.data == 0 ? 1 : run.data} * run.tensor;
}

/// The strategy with its open extent filled in for a run of `ranks` ranks. Throws bad_request with
/// one sentence when an extent is not positive or the product of the extents is not `ranks`.
constexpr run_strategy laid_out(run_strategy run, int ranks) {
  if (run.data < 0 || run.tensor < 1) {
    require(false, "the strategy ", extents_text(run),
            " has an extent that is not positive; every extent is at least 1; type --data 1 "
            "--tensor 1");
  }
  if (ranks < 1) require(false, "a run has ", ranks, " ranks; it has at least 1");
  const std::int64_t needed = ranks_needed(run);
  const bool open = run.data == 0;
  if (open ? ranks % needed != 0 : needed != ranks) {
    const int tensor = std::gcd(run.tensor, ranks);
    require(false, "the strategy ", extents_text(run), " needs ", open ? "a multiple of " : "",
            needed, " ranks, and this run has ", ranks,
            "; the product of all extents is the number of ranks; start it with mpirun -n ", needed,
            ", or type --data ", ranks / tensor, " --tensor ", tensor);
  }
  if (open) run.data = static_cast<int>(ranks / needed);
  return run;
}

/// The mesh of a strategy that `laid_out` has filled in, seen from `rank`.
constexpr mesh<axis::data, axis::tensor> mesh_of(const run_strategy& run, int rank) {
  return mesh<axis::data, axis::tensor>({run.data, run.tensor}, rank);
}

}  // namespace tenon::inline v0
