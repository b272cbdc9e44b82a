// SPDX-License-Identifier: Apache-2.0
#pragma once

// The table of moves on simulated ranks. A tensor's values are small whole numbers, functions of
// the global index, so that every sum is exact in every element and results compare exactly.

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "findings.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/tensor/random.hpp"
#include "tenon/tensor/redistribute.hpp"

namespace tenon_test {

using rows = sequence;
using middle = heads;
using columns = head_width;
using cube = dims<rows, middle, columns>;
using line_mesh = mesh<axis::tensor>;
template <class S>
using on_line = placement<on<axis::tensor, S>>;

/// A whole number from -4 to 4.
inline std::int64_t number_at(std::int64_t index, int rank, int salt) {
  return (index * 7 + rank * 5 + salt * 3 + index * index % 11) % 9 - 4;
}

/// What all ranks together hold at a global index, in state `S`.
template <class S>
std::int64_t global_number(std::int64_t index, int ranks, int salt) {
  if constexpr (!is_partial<S>) {
    return number_at(index, 0, salt);
  } else {
    std::int64_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += number_at(index, r, salt);
    return sum;
  }
}

/// Fills this rank's piece; the terms of a partial are of each rank.
template <class E, class D, class P>
void fill_numbers(tensor<E, D, P>& x, int salt) {
  const int rank = is_partial<state_on_t<P, axis::tensor>> ? x.group().rank() : 0;
  for_each_global_index(x, [&](E& value, std::int64_t index) {
    value = E(static_cast<float>(number_at(index, rank, salt)));
  });
}

/// The product of a gradient and a value: over all elements and ranks, an invariant counted once.
template <class E, class D, class P, class Q>
double pairing(tensor<E, D, P>& x, tensor<E, D, Q>& gradient) {
  static_assert(std::is_same_v<Q, gradient_placement<P>>);
  auto& group = x.group();
  fp64 sum = 0;
  const bool counted = !std::is_same_v<state_on_t<P, axis::tensor>, invariant> || group.rank() == 0;
  for (std::int64_t i = 0; counted && i < x.elements(); ++i) {
    sum += static_cast<double>(x.data()[i]) * static_cast<double>(gradient.data()[i]);
  }
  group.template on<axis::tensor>().call({.call = collective::all_reduce,
                                          .element = element_kind::fp64,
                                          .from = &sum,
                                          .to = &sum,
                                          .count = 1},
                                         {.tensor = "pairing"}, call_site::here());
  return sum;
}

/// Adds up a partial result over the ranks, by sums that the moves do not use.
inline std::vector<double> sum_of_terms(communicator& line, std::vector<double> terms) {
  line.call({.call = collective::all_reduce,
             .element = element_kind::fp64,
             .from = terms.data(),
             .to = terms.data(),
             .count = static_cast<std::int64_t>(terms.size())},
            {.tensor = "terms"}, call_site::here());
  return terms;
}

/// A partition of a dim that is not balanced: twice as much for every odd rank.
inline partition uneven(std::int64_t extent, int parts) {
  std::vector<double> weights;
  for (int r = 0; r < parts; ++r) weights.push_back(1 + r % 2);
  return partition::weighted(extent, weights);
}

/// A tensor whose cut, if it has one, is balanced or not.
template <class E, class S>
tensor<E, cube, on_line<S>> placed(ranks<line_mesh>& group, const shape<cube>& global,
                                   bool balanced) {
  layout<cube, on_line<S>> where(global, group.grid());
  if constexpr (is_sharded<S>) {
    if (!balanced) {
      where = where.template with<axis::tensor>(
          uneven(global.template of<typename S::dim>(), group.size()));
    }
  }
  return {group, where};
}

/// One row of the table: values against the global array, the input untouched, and the backward
/// against the forward by <y, A x> = <A' y, x>.
template <class E, class From, class To>
void check_move(findings& found, ranks<line_mesh>& group, const shape<cube>& global,
                bool balanced) {
  const auto what =
      joined("from ", detail::state_text<From>(), " to ", detail::state_text<To>(), ", ",
             name_of(kind_of<E>), ", ", group.size(), " ranks, shape ", global.extents[0], " x ",
             global.extents[1], " x ", global.extents[2], balanced ? "" : ", uneven");
  auto x = placed<E, From>(group, global, balanced);
  fill_numbers(x, 1);
  partition cut;
  const partition* chosen = nullptr;
  if constexpr (is_sharded<To>) {
    if (!balanced) {
      cut = uneven(global.template of<typename To::dim>(), group.size());
      chosen = &cut;
    }
  }
  auto y = redistribute<axis::tensor, To>(x, "moved", chosen);
  static_assert(std::is_same_v<decltype(y), tensor<E, cube, on_line<To>>>);
  found.expect(y.where() == placed<E, To>(group, global, balanced).where(), what + ": the layout");

  // x is still held: a move may not write into it.
  auto before = placed<E, From>(group, global, balanced);
  fill_numbers(before, 1);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    found.expect(x.data()[i] == before.data()[i], what + ": the input was changed");
  }

  if constexpr (is_partial<To> && !is_partial<From>) {
    std::vector<double> terms;
    for (const E value : y.values()) terms.push_back(static_cast<double>(value));
    terms = sum_of_terms(group.template on<axis::tensor>(), std::move(terms));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      found.equal(static_cast<std::int64_t>(terms[i]),
                  global_number<From>(static_cast<std::int64_t>(i), group.size(), 1), what);
    }
  } else {
    for_each_global_index(y, [&](E& value, std::int64_t index) {
      found.equal(static_cast<std::int64_t>(value), global_number<From>(index, group.size(), 1),
                  what);
    });
  }

  if constexpr (element<E>) {
    using back_from = gradient_state<To>;
    using back_to = gradient_state<From>;
    auto g = placed<E, back_from>(group, global, balanced);
    fill_numbers(g, 2);
    partition back;
    const partition* back_cut = nullptr;
    if constexpr (is_sharded<back_to>) {
      back = x.where().template partition_on<axis::tensor>();
      if (!back.is_balanced()) back_cut = &back;
    }
    auto a = redistribute<axis::tensor, back_to>(g, "gradient", back_cut);
    found.expect(a.where() == gradient_layout(x.where()), what + ": the gradient's layout");
    found.equal(pairing(x, a), pairing(y, g), what + ": <A' y, x> and <y, A x>");
  }
}

/// Every row of the table, and every dim where a row cuts one.
template <class E>
void check_table(findings& found, ranks<line_mesh>& group, const shape<cube>& global,
                 bool balanced) {
  const auto row = [&]<class From, class To>(std::type_identity<From>, std::type_identity<To>) {
    check_move<E, From, To>(found, group, global, balanced);
  };
  constexpr auto sum = std::type_identity<partial>{};
  constexpr auto all = std::type_identity<replicated>{};
  constexpr auto same = std::type_identity<invariant>{};
  row(sum, same);
  row(sum, all);
  row(all, sum);
  row(all, same);
  row(same, all);
  row(same, sum);
  const auto rows_of_dim = [&]<class D>(std::type_identity<D>) {
    constexpr auto pieces = std::type_identity<sharded<D>>{};
    row(sum, pieces);
    row(pieces, all);
    row(pieces, same);
    row(pieces, sum);
    row(all, pieces);
    row(same, pieces);
  };
  rows_of_dim(std::type_identity<rows>{});
  rows_of_dim(std::type_identity<middle>{});
  rows_of_dim(std::type_identity<columns>{});
  const auto both_ways = [&]<class A, class B>(std::type_identity<A> a, std::type_identity<B> b) {
    row(a, b);
    row(b, a);
  };
  both_ways(std::type_identity<sharded<rows>>{}, std::type_identity<sharded<middle>>{});
  both_ways(std::type_identity<sharded<rows>>{}, std::type_identity<sharded<columns>>{});
  both_ways(std::type_identity<sharded<middle>>{}, std::type_identity<sharded<columns>>{});
}

/// The table on 1, 2, 3, 4 and 7 ranks with shapes that divide, do not, leave ranks empty, or have
/// nothing. Returns the first thing that was wrong.
template <class E>
std::string check_table_everywhere() {
  findings found;
  for (const int size : {1, 2, 3, 4, 7}) {
    simulate(size, [&](transport& world) {
      ranks<line_mesh> group(world, line_mesh({size}));
      for (const shape<cube>& global : {shape<cube>{4, 8, 12}, shape<cube>{5, 3, 7},
                                        shape<cube>{2, 1, 3}, shape<cube>{3, 0, 2}}) {
        for (const bool balanced : {true, false}) check_table<E>(found, group, global, balanced);
      }
    });
  }
  return found.first();
}

}  // namespace tenon_test
