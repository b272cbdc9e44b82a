// SPDX-License-Identifier: Apache-2.0
// The prices of moves, against counting the elements that a rank needs and does not hold. Small
// cases are checked by the compiler, the same laws over more cases when the test runs.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <cstdint>
#include <utility>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

using stream = dims<batch, sequence, hidden>;
using grid = mesh<axis::data, axis::tensor>;
template <class S, class T>
using on_grid = placement<on<axis::data, S>, on<axis::tensor, T>>;
using regions = std::array<region, 3>;

constexpr bool inside(const regions& r, std::int64_t x, std::int64_t y, std::int64_t z) {
  return x >= r[0].begin && x < r[0].end() && y >= r[1].begin && y < r[1].end() &&
         z >= r[2].begin && z < r[2].end();
}

// The elements that lie in the first regions and not in the second.
constexpr std::int64_t in_first_alone(const shape<stream>& global, const regions& first,
                                      const regions& second) {
  std::int64_t count = 0;
  for (std::int64_t x = 0; x < global.extents[0]; ++x)
    for (std::int64_t y = 0; y < global.extents[1]; ++y)
      for (std::int64_t z = 0; z < global.extents[2]; ++z)
        count += inside(first, x, y, z) && !inside(second, x, y, z) ? 1 : 0;
  return count;
}

// What a rank must send or receive, counted from where its elements lie before and after.
struct rank_view {
  shape<stream> global;
  regions before;
  regions after;
  int ranks;
  int place;
};
template <class A>
constexpr std::int64_t counted(all_reduce<A>, const rank_view& v) {
  // Each rank sums the pieces dealt to it for the others, and gives the sums back.
  const std::int64_t all = v.before[0].size * v.before[1].size * v.before[2].size;
  std::int64_t own = 0;
  for (std::int64_t n = 0; n < all; ++n) own += n % v.ranks == v.place ? 1 : 0;
  return 2 * (all - own);
}
template <class A, class D>
constexpr std::int64_t counted(all_gather<A, D>, const rank_view& v) {
  return in_first_alone(v.global, v.after, v.before);
}
template <class A, class D>
constexpr std::int64_t counted(reduce_scatter<A, D>, const rank_view& v) {
  return in_first_alone(v.global, v.before, v.after);
}
template <class A, class D, class E>
constexpr std::int64_t counted(all_to_all<A, D, E>, const rank_view& v) {
  return in_first_alone(v.global, v.before, v.after);
}
template <class Local>
constexpr std::int64_t counted(Local, const rank_view&) {
  static_assert(!communicates<Local>);
  return 0;
}

// The move of `Axis` to state `To`: its price on every rank is what is counted there.
template <class Placement, class Axis, class To>
constexpr bool priced_right(const shape<stream>& global, int data, int tensor) {
  const layout<stream, Placement> first(global, grid({data, tensor}));
  for (int r = 0; r < data * tensor; ++r) {
    const auto before = first.seen_from(r);
    const auto after = before.template moved<Axis, To>();
    const auto& g = before.grid();
    const rank_view view{global, before.regions(), after.regions(), g.template extent<Axis>(),
                         g.template coordinate<Axis>()};
    using step = move<Axis, state_on_t<Placement, Axis>, To>;
    if (elements_moved<step>(before) != counted(step{}, view)) return false;
  }
  return true;
}

using stream_states =
    type_list<partial, replicated, invariant, sharded<batch>, sharded<sequence>, sharded<hidden>>;

// All moves that a placement allows on one of its axes.
template <class Placement, class Axis>
constexpr bool all_moves_priced_right(const shape<stream>& global, int data, int tensor) {
  return for_every<stream_states>([&]<class To>() {
    if constexpr (can_redistribute<Placement, Axis, To>) {
      return priced_right<Placement, Axis, To>(global, data, tensor);
    } else {
      return true;
    }
  });
}
static_assert(all_moves_priced_right<on_grid<sharded<batch>, partial>, axis::tensor>({3, 2, 2}, 2,
                                                                                     3));
static_assert(all_moves_priced_right<on_grid<replicated, sharded<hidden>>, axis::tensor>({2, 3, 2},
                                                                                         2, 3));
static_assert(all_moves_priced_right<on_grid<sharded<hidden>, sharded<hidden>>, axis::tensor>(
    {1, 2, 5}, 2, 2));
static_assert(all_moves_priced_right<on_grid<sharded<sequence>, invariant>, axis::data>({2, 3, 1},
                                                                                        4, 1));

constexpr bool every_price_is_counted(const shape<stream>& global, int data, int tensor) {
  return for_every_pair<stream_states, stream_states>([&]<class S, class T>() {
    return all_moves_priced_right<on_grid<S, T>, axis::data>(global, data, tensor) &&
           all_moves_priced_right<on_grid<S, T>, axis::tensor>(global, data, tensor);
  });
}

// Over all ranks of an axis of d ranks: (d - 1) M for an all-gather and a reduce-scatter of M
// elements, 2 (d - 1) M for an all-reduce, however they divide; and the all-reduce costs the
// reduce-scatter and the all-gather together.
template <class D>
constexpr bool sums_over_ranks(const shape<stream>& global, int d) {
  using line = mesh<axis::tensor>;
  using whole = placement<on<axis::tensor, partial>>;
  using split = placement<on<axis::tensor, sharded<D>>>;
  const layout<stream, whole> sums(global, line({d}));
  const layout<stream, split> pieces(global, line({d}));
  std::int64_t reduced = 0;
  std::int64_t scattered = 0;
  std::int64_t gathered = 0;
  for (int r = 0; r < d; ++r) {
    reduced += elements_moved<all_reduce<axis::tensor>>(sums.seen_from(r));
    scattered += elements_moved<reduce_scatter<axis::tensor, D>>(sums.seen_from(r));
    gathered += elements_moved<all_gather<axis::tensor, D>>(pieces.seen_from(r));
  }
  const std::int64_t once = (d - 1) * global.elements();
  return reduced == 2 * once && scattered == once && gathered == once;
}
constexpr bool sums_over_all_extents(const shape<stream>& global) {
  for (int d = 1; d <= 9; ++d) {
    if (!sums_over_ranks<batch>(global, d) || !sums_over_ranks<sequence>(global, d) ||
        !sums_over_ranks<hidden>(global, d)) {
      return false;
    }
  }
  return true;
}
static_assert(sums_over_all_extents({5, 4, 3}));
static_assert(sums_over_all_extents({2, 1, 10}));
static_assert(sums_over_all_extents({0, 4, 3}));

// One rank sends nothing, whatever the move.
static_assert(every_price_is_counted({2, 2, 2}, 1, 1));

// The backward of an all-reduce to replicated, of a gather and of an all-to-all costs what the
// forward costs, over all ranks.
template <class S, class T>
constexpr std::int64_t over_all_ranks(const shape<stream>& global, int d) {
  std::int64_t total = 0;
  for (int r = 0; r < d; ++r) {
    const layout<stream, placement<on<axis::tensor, S>>> before(global, mesh<axis::tensor>({d}, r));
    total += elements_moved<move<axis::tensor, S, T>>(before);
  }
  return total;
}
template <class S, class T>
constexpr bool backward_costs_the_same(const shape<stream>& global, int d) {
  return over_all_ranks<S, T>(global, d) ==
         over_all_ranks<gradient_state<T>, gradient_state<S>>(global, d);
}
static_assert(backward_costs_the_same<partial, replicated>({5, 4, 3}, 3));
static_assert(backward_costs_the_same<sharded<hidden>, replicated>({5, 4, 3}, 2));
static_assert(backward_costs_the_same<partial, sharded<sequence>>({5, 4, 3}, 8));
static_assert(backward_costs_the_same<sharded<hidden>, sharded<sequence>>({5, 4, 3}, 4));
static_assert(over_all_ranks<partial, invariant>({5, 4, 3}, 4) == 2 * 3 * 60);
static_assert(over_all_ranks<invariant, invariant>({5, 4, 3}, 4) == 0);

// More than 2^31 elements are counted, and so are their bytes.
using logits = dims<batch, sequence, vocabulary>;
using summed = placement<on<axis::data, partial>>;
constexpr layout<logits, summed> large({64, 1024, 50257}, mesh<axis::data>({2}));
static_assert(large.elements() == 3'293'642'752);
static_assert(elements_moved<all_reduce<axis::data>>(large) == 3'293'642'752);
static_assert(busiest_bytes<transfer<all_reduce<axis::data>, fp32, logits, summed>>(
                  {64, 1024, 50257}, mesh<axis::data>({2})) == 13'174'571'008);
static_assert(elements_moved<reduce_scatter<axis::data, batch>>(layout<dims<batch>, summed>(
                  2'400'000'000, mesh<axis::data>({4}))) == 1'800'000'000);

// Bytes of the busiest rank: 8 sequences over data 3 are 3, 3, 2; 5 positions over tensor 2 are
// 3, 2; the rank that holds least receives most: 3 x 3 x 4 elements of 4 bytes.
using rows = on_grid<sharded<batch>, sharded<sequence>>;
using gather_rows = transfer<all_gather<axis::tensor, sequence>, fp32, stream, rows>;
static_assert(busiest_bytes<gather_rows>({8, 5, 4}, mesh<axis::data, axis::tensor>({3, 2})) == 144);
static_assert(bytes_moved<gather_rows>({8, 5, 4}, grid({3, 2}, 0)) == 3 * 2 * 4 * 4);
static_assert(bytes_moved<gather_rows>({8, 5, 4}, grid({3, 2}, 5)) == 2 * 3 * 4 * 4);
static_assert(busiest_bytes<transfer<all_gather<axis::tensor, sequence>, bf16, stream, rows>>(
                  {8, 5, 4}, grid({3, 2})) == 72);

// A spread costs what a rank uses and does not own: two kv heads of width 5 on three ranks.
constexpr bool spread_price() {
  using of_heads = placement<on<axis::tensor, sharded<kv_heads>>>;
  const layout<dims<kv_heads, head_width>, of_heads> own({2, 5}, mesh<axis::tensor>({3}));
  const auto use =
      own.with<axis::tensor>(partition::of_regions(2, {region{0, 1}, region{0, 2}, region{1, 1}}));
  constexpr std::array<std::int64_t, 3> expected{0, 5, 5};
  for (int r = 0; r < 3; ++r) {
    if (elements_spread<axis::tensor>(own.seen_from(r), use.seen_from(r)) !=
        expected[static_cast<std::size_t>(r)]) {
      return false;
    }
  }
  return true;
}
static_assert(spread_price());

// Traffic as a type: lists of transfers, of which local moves are no part.
using first = one_transfer<all_reduce<axis::tensor>, bf16, stream, on_grid<replicated, partial>>;
using second = one_transfer<nothing, bf16, stream, on_grid<replicated, replicated>>;
using third = one_transfer<all_gather<axis::tensor, sequence>, fp32, stream, rows>;
using all_three = joined_transfers<first, second, third>;
static_assert(all_three::size == 2 && second::size == 0 && joined_transfers<>::size == 0);
static_assert(std::same_as<traffic_of_t<all_three>,
                           traffic<all_reduce<axis::tensor>, all_gather<axis::tensor, sequence>>>);
static_assert(
    std::same_as<axis_of_move<all_to_all<axis::context, heads, sequence>>, axis::context>);
static_assert(std::same_as<axis_of_move<all_reduce<axis::data>>, axis::data>);
static_assert(name_of_move<all_reduce<axis::data, reduction::maximum>> == "all_reduce");
static_assert(name_of_move<all_gather<axis::data, batch>> == "all_gather");
static_assert(name_of_move<reduce_scatter<axis::data, batch>> == "reduce_scatter");
static_assert(name_of_move<all_to_all<axis::data, batch, hidden>> == "all_to_all");
static_assert(name_of_move<spread<axis::data, batch>> == "spread");

}  // namespace

BOOST_AUTO_TEST_SUITE(prices)

BOOST_AUTO_TEST_CASE(every_move_costs_what_counting_says) {
  for (const auto& [data, tensor] : {std::pair{2, 3}, {3, 2}, {1, 8}, {4, 1}, {4, 3}}) {
    BOOST_TEST(every_price_is_counted({5, 4, 7}, data, tensor));
    BOOST_TEST(every_price_is_counted({2, 1, 3}, data, tensor));
    BOOST_TEST(every_price_is_counted({0, 4, 1}, data, tensor));
  }
}

BOOST_AUTO_TEST_SUITE_END()
