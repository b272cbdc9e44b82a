// SPDX-License-Identifier: Apache-2.0
// The contraction rule, against what two ranks really compute. This file only has to compile.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

// The product C[b, i, k] = sum over j of A[b, i, j] B[b, j, k].
struct letter_b {
  static constexpr std::string_view name = "b";
};
struct letter_i {
  static constexpr std::string_view name = "i";
};
struct letter_j {
  static constexpr std::string_view name = "j";
};
struct letter_k {
  static constexpr std::string_view name = "k";
};
using dims_a = dims<letter_b, letter_i, letter_j>;
using dims_b = dims<letter_b, letter_j, letter_k>;
using dims_c = dims<letter_b, letter_i, letter_k>;

template <class S>
using cut = placement<on<axis::tensor, S>>;
template <class S, class T>
concept accepted = can_multiply<dims_a, cut<S>, dims_b, cut<T>, dims_c>;
template <class S, class T>
using product_state =
    state_on_t<product_placement_t<dims_a, cut<S>, dims_b, cut<T>, dims_c>, axis::tensor>;

using states_of_a = type_list<partial, replicated, invariant, sharded<letter_b>, sharded<letter_i>,
                              sharded<letter_j>>;
using states_of_b = type_list<partial, replicated, invariant, sharded<letter_b>, sharded<letter_j>,
                              sharded<letter_k>>;

// The rule, spelled out.
template <class S, class T, class R>
constexpr bool gives = std::same_as<product_state<S, T>, R>;
static_assert(gives<sharded<letter_b>, sharded<letter_b>, sharded<letter_b>>);
static_assert(gives<sharded<letter_i>, replicated, sharded<letter_i>>);
static_assert(gives<replicated, sharded<letter_k>, sharded<letter_k>>);
static_assert(gives<sharded<letter_j>, sharded<letter_j>, partial>);
static_assert(gives<replicated, replicated, replicated>);
static_assert(gives<invariant, invariant, invariant>);
static_assert(gives<partial, replicated, partial>);
static_assert(gives<replicated, partial, partial>);

// Nothing else is accepted: eight of the thirty-six pairs.
constexpr int pairs_accepted = [] {
  int count = 0;
  for_every_pair<states_of_a, states_of_b>([&]<class S, class T>() {
    if (accepted<S, T>) ++count;
    return true;
  });
  return count;
}();
static_assert(pairs_accepted == 8);

// One rank's part of a tensor with three dims of extent two: a range of each dim, and values in it.
constexpr int extent = 2;
struct part {
  std::array<region, 3> held{region{0, extent}, region{0, extent}, region{0, extent}};
  std::array<std::int64_t, 8> values{};
  constexpr std::int64_t& at(std::int64_t x, std::int64_t y, std::int64_t z) {
    return values[static_cast<std::size_t>((x * extent + y) * extent + z)];
  }
  constexpr std::int64_t at(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return values[static_cast<std::size_t>((x * extent + y) * extent + z)];
  }
};
using on_two_ranks = std::array<part, 2>;

constexpr part arbitrary(std::int64_t seed) {
  part p;
  for (std::size_t n = 0; n < 8; ++n) {
    p.values[n] = (static_cast<std::int64_t>(n) * 37 + seed * 101) % 23 - 11;
  }
  return p;
}

// The value `all` as two ranks hold it in state S. A partial one is split by arbitrary terms.
template <class S, class D>
constexpr on_two_ranks held_as(const part& all, std::int64_t seed) {
  on_two_ranks ranks{all, all};
  if constexpr (is_sharded<S>) {
    constexpr std::size_t d = D::template position<typename S::dim>;
    for (std::int64_t r = 0; r < 2; ++r) ranks[static_cast<std::size_t>(r)].held[d] = {r, 1};
  } else if constexpr (is_partial<S>) {
    ranks[1] = arbitrary(seed);
    for (std::size_t n = 0; n < 8; ++n) ranks[0].values[n] -= ranks[1].values[n];
  }
  return ranks;
}

struct local_product {
  bool possible = false;
  part result;
};
constexpr local_product multiply(const part& a, const part& b) {
  local_product p;
  p.possible = a.held[0] == b.held[0] && a.held[2] == b.held[1];
  if (!p.possible) return p;
  p.result.held = {a.held[0], a.held[1], b.held[2]};
  for (auto x = a.held[0].begin; x < a.held[0].end(); ++x)
    for (auto i = a.held[1].begin; i < a.held[1].end(); ++i)
      for (auto k = b.held[2].begin; k < b.held[2].end(); ++k)
        for (auto j = a.held[2].begin; j < a.held[2].end(); ++j)
          p.result.at(x, i, k) += a.at(x, i, j) * b.at(x, j, k);
  return p;
}

// True when what the ranks hold is the value `all` in state S.
template <class S, class D>
constexpr bool is_held_as(const on_two_ranks& ranks, const part& all) {
  const on_two_ranks want = held_as<S, D>(all, 0);
  if (ranks[0].held != want[0].held || ranks[1].held != want[1].held) return false;
  for (std::int64_t x = 0; x < extent; ++x)
    for (std::int64_t y = 0; y < extent; ++y)
      for (std::int64_t z = 0; z < extent; ++z) {
        if constexpr (is_partial<S>) {
          if (ranks[0].at(x, y, z) + ranks[1].at(x, y, z) != all.at(x, y, z)) return false;
        } else {
          for (const part& p : ranks) {
            const bool here = intersection(p.held[0], {x, 1}).size > 0 &&
                              intersection(p.held[1], {y, 1}).size > 0 &&
                              intersection(p.held[2], {z, 1}).size > 0;
            if (here && p.at(x, y, z) != all.at(x, y, z)) return false;
          }
        }
      }
  return true;
}

constexpr part a = arbitrary(1);
constexpr part b = arbitrary(2);
constexpr part c = multiply(a, b).result;

template <class S, class T>
constexpr bool computes_a_state() {
  const auto as = held_as<S, dims_a>(a, 3);
  const auto bs = held_as<T, dims_b>(b, 4);
  const local_product first = multiply(as[0], bs[0]);
  const local_product second = multiply(as[1], bs[1]);
  if (!first.possible || !second.possible) return false;
  const on_two_ranks results{first.result, second.result};
  if constexpr (accepted<S, T>) {
    return is_held_as<product_state<S, T>, dims_c>(results, c);
  } else {
    return is_held_as<partial, dims_c>(results, c) || is_held_as<replicated, dims_c>(results, c) ||
           is_held_as<sharded<letter_b>, dims_c>(results, c) ||
           is_held_as<sharded<letter_i>, dims_c>(results, c) ||
           is_held_as<sharded<letter_k>, dims_c>(results, c);
  }
}

// A pair is accepted exactly when the local products are the product in some state, and then that
// is the state of the rule. (Invariant has a say in backward alone, see below.)
static_assert(for_every_pair<states_of_a, states_of_b>([]<class S, class T>() {
  if (std::same_as<S, invariant> != std::same_as<T, invariant>) return !accepted<S, T>;
  return accepted<S, T> == computes_a_state<S, T>();
}));

// The backward of a product are two products by the same rule, and they give both operands their
// gradients in the gradients' states: dA = dC B^T, dB = A^T dC.
static_assert(for_every_pair<states_of_a, states_of_b>([]<class S, class T>() {
  if constexpr (accepted<S, T>) {
    using upstream = cut<gradient_state<product_state<S, T>>>;
    using gradient_a = product_placement_t<dims_c, upstream, dims_b, cut<T>, dims_a>;
    using gradient_b = product_placement_t<dims_a, cut<S>, dims_c, upstream, dims_b>;
    return std::same_as<gradient_a, cut<gradient_state<S>>> &&
           std::same_as<gradient_b, cut<gradient_state<T>>>;
  } else {
    return true;
  }
}));

// A maximum is no operand of a product.
static_assert(!accepted<partial_of<reduction::maximum>, replicated>);
static_assert(!accepted<replicated, partial_of<reduction::log_sum_exp>>);

// A constant serves where its partner asks for replicated or invariant, and must be cut alike.
template <class S, class T>
concept accepted_constant = can_multiply<dims_a, cut<S>, dims_b, constant<cut<T>>, dims_c>;
static_assert(for_every<states_of_a>([]<class S>() {
  using letter_cut = type_list<sharded<letter_b>, sharded<letter_j>>;
  constexpr bool cut_in_both =
      !for_every<letter_cut>([]<class L>() { return !std::same_as<S, L>; });
  return accepted_constant<S, replicated> == !cut_in_both &&
         accepted_constant<S, invariant> == !cut_in_both;
}));
static_assert(accepted_constant<sharded<letter_j>, sharded<letter_j>>);
static_assert(!accepted_constant<sharded<letter_i>, sharded<letter_k>>);
static_assert(!accepted_constant<partial, partial>);
static_assert(std::same_as<product_placement_t<dims_a, cut<invariant>, dims_b,
                                               constant<cut<replicated>>, dims_c>,
                           cut<invariant>>);
// Two constants give a constant.
static_assert(is_constant<product_placement_t<dims_a, constant<cut<invariant>>, dims_b,
                                              constant<cut<replicated>>, dims_c>>);

// The axes of a mesh follow the rule each by itself: a linear layer in a decoder.
using grid_states = placement<on<axis::data, sharded<batch>>, on<axis::tensor, replicated>>;
using column_weight = placement<on<axis::data, replicated>, on<axis::tensor, sharded<ffn>>>;
using row_weight = placement<on<axis::data, replicated>, on<axis::tensor, sharded<ffn>>>;
using stream = dims<batch, sequence, hidden>;
using inner = dims<batch, sequence, ffn>;
using after_column =
    product_placement_t<stream, grid_states, dims<hidden, ffn>, column_weight, inner>;
static_assert(
    std::same_as<after_column,
                 placement<on<axis::data, sharded<batch>>, on<axis::tensor, sharded<ffn>>>>);
using after_row = product_placement_t<inner, after_column, dims<ffn, hidden>, row_weight, stream>;
static_assert(
    std::same_as<after_row, placement<on<axis::data, sharded<batch>>, on<axis::tensor, partial>>>);
// The weight's gradient is a sum over data, which no one can forget.
static_assert(std::same_as<product_placement_t<stream, grid_states, inner,
                                               gradient_placement<after_column>, dims<hidden, ffn>>,
                           placement<on<axis::data, partial>, on<axis::tensor, sharded<ffn>>>>);
// A weight that is invariant over data does not meet the tokens.
static_assert(
    !can_multiply<stream, grid_states, dims<hidden, ffn>,
                  placement<on<axis::data, invariant>, on<axis::tensor, sharded<ffn>>>, inner>);

// An embedding: one-hot tokens times a table with its vocabulary cut gives a sum to be done.
static_assert(
    std::same_as<product_placement_t<dims<batch, sequence, vocabulary>, cut<sharded<vocabulary>>,
                                     dims<vocabulary, hidden>, cut<sharded<vocabulary>>, stream>,
                 cut<partial>>);

// Two axes that cut one dim, on both operands: the sum is partial on both.
using both_cut =
    placement<on<axis::tensor_row, sharded<hidden>>, on<axis::tensor_column, sharded<hidden>>>;
static_assert(
    std::same_as<product_placement_t<stream, both_cut, dims<hidden, ffn>, both_cut, inner>,
                 placement<on<axis::tensor_row, partial>, on<axis::tensor_column, partial>>>);

// Different meshes, a cut dim that is not there, a dim of neither operand, a dim that is lost.
static_assert(!can_multiply<stream, cut<replicated>, dims<hidden, ffn>,
                            placement<on<axis::data, replicated>>, inner>);
static_assert(!can_multiply<stream, cut<sharded<ffn>>, dims<hidden, ffn>, cut<replicated>, inner>);
static_assert(!can_multiply<stream, cut<replicated>, dims<hidden, ffn>, cut<replicated>,
                            dims<batch, sequence, rack>>);
static_assert(!can_multiply<stream, cut<sharded<sequence>>, dims<hidden, ffn>, cut<replicated>,
                            dims<batch, ffn>>);

}  // namespace
