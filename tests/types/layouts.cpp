// SPDX-License-Identifier: Apache-2.0
// Where the pieces of tensors lie, against counting. Small cases are checked by the compiler, the
// same laws over more cases when the test runs.
#include <array>
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <cstdint>
#include <vector>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

// How many of `extent` cards part gets when they are dealt round.
constexpr std::int64_t dealt(std::int64_t extent, int parts, int part) {
  std::int64_t count = 0;
  for (std::int64_t card = 0; card < extent; ++card) count += card % parts == part ? 1 : 0;
  return count;
}

constexpr bool balanced_is_dealt(std::int64_t extent, int parts) {
  const partition p = partition::balanced(extent, parts);
  std::int64_t begin = 0;
  for (int part = 0; part < parts; ++part) {
    if (p.of(part) != region{begin, dealt(extent, parts, part)}) return false;
    begin += p.of(part).size;
  }
  return begin == extent && p.covers_once() && p.is_balanced() && p.extent() == extent &&
         p.parts() == parts;
}
constexpr bool balanced_up_to(std::int64_t extent, int parts) {
  for (std::int64_t e = 0; e <= extent; ++e) {
    for (int p = 1; p <= parts; ++p) {
      if (!balanced_is_dealt(e, p)) return false;
    }
  }
  return true;
}
static_assert(balanced_up_to(17, 9));

constexpr std::vector<std::int64_t> sizes(const partition& p) {
  std::vector<std::int64_t> all;
  for (int part = 0; part < p.parts(); ++part) all.push_back(p.of(part).size);
  return all;
}
using numbers = std::vector<std::int64_t>;
static_assert(sizes(partition::balanced(5, 4)) == numbers{2, 1, 1, 1});
static_assert(sizes(partition::balanced(10, 4)) == numbers{3, 3, 2, 2});
static_assert(sizes(partition::balanced(5, 2)) == numbers{3, 2});
static_assert(sizes(partition::balanced(2, 8)) == numbers{1, 1, 0, 0, 0, 0, 0, 0});
static_assert(sizes(partition::balanced(0, 3)) == numbers{0, 0, 0});
static_assert(partition::balanced(2'400'000'000, 4).of(3) == region{1'800'000'000, 600'000'000});

// Weights: in proportion, rounded, and every index once.
static_assert(sizes(partition::weighted(12, {1, 2, 1})) == numbers{3, 6, 3});
static_assert(sizes(partition::weighted(10, {1, 0, 1})) == numbers{5, 0, 5});
static_assert(sizes(partition::weighted(7, {1, 1, 1})) == numbers{2, 3, 2});
static_assert(partition::weighted(7, {1, 1, 1}).covers_once());
static_assert(partition::weighted(0, {3, 1}).covers_once());
static_assert(partition::weighted(8, {1, 1}) == partition::balanced(8, 2));

// Regions: overlapping ones, a hole, and the balanced ones recognised.
static_assert(!partition::of_regions(4, {{0, 2}, {1, 2}, {2, 2}}).covers_once());
static_assert(!partition::of_regions(4, {{0, 1}, {2, 2}}).covers_once());
static_assert(!partition::of_regions(4, {{2, 2}, {0, 2}}).covers_once());
static_assert(partition::of_regions(4, {{0, 3}, {0, 0}, {3, 1}}).covers_once());
static_assert(partition::of_regions(4, {{0, 2}, {2, 2}}) == partition::balanced(4, 2));
static_assert(intersection({2, 5}, {4, 9}) == region{4, 3});
static_assert(intersection({0, 2}, {5, 1}).size == 0);

using stream = dims<batch, sequence, hidden>;
template <class S, class T>
using on_grid = placement<on<axis::data, S>, on<axis::tensor, T>>;
using grid = mesh<axis::data, axis::tensor>;

// Uneven and empty pieces gather back to the whole: 5 x 10 over 4 is 5 x 10.
using matrix = dims<hidden, ffn>;
constexpr bool five_by_ten() {
  const layout<matrix, placement<on<axis::tensor, sharded<hidden>>>> l({5, 10},
                                                                       mesh<axis::tensor>({4}));
  constexpr std::array<std::int64_t, 4> rows{2, 1, 1, 1};
  constexpr std::array<std::int64_t, 4> first{0, 2, 3, 4};
  std::int64_t elements = 0;
  for (int r = 0; r < 4; ++r) {
    const auto here = l.seen_from(r);
    const auto i = static_cast<std::size_t>(r);
    if (here.of<hidden>() != region{first[i], rows[i]} || here.of<ffn>() != region{0, 10}) {
      return false;
    }
    elements += here.elements();
    if (here.moved<axis::tensor, replicated>().elements() != 50) return false;
  }
  return elements == 50 && l.global().elements() == 50;
}
static_assert(five_by_ten());

// Where axes cut every dim that they cut, each element lies on as many ranks as hold it by rights:
// on one, times the extents of the axes that cut nothing.
template <class S, class T>
constexpr bool each_element_is_held(const shape<stream>& global, int data, int tensor) {
  const layout<stream, on_grid<S, T>> l(global, grid({data, tensor}));
  const int copies = (is_sharded<S> ? 1 : data) * (is_sharded<T> ? 1 : tensor);
  for (std::int64_t x = 0; x < global.extents[0]; ++x)
    for (std::int64_t y = 0; y < global.extents[1]; ++y)
      for (std::int64_t z = 0; z < global.extents[2]; ++z) {
        int holders = 0;
        for (int r = 0; r < data * tensor; ++r) {
          const auto here = l.seen_from(r);
          const bool holds = intersection(here.template of<batch>(), {x, 1}).size == 1 &&
                             intersection(here.template of<sequence>(), {y, 1}).size == 1 &&
                             intersection(here.template of<hidden>(), {z, 1}).size == 1;
          holders += holds ? 1 : 0;
        }
        if (holders != copies) return false;
      }
  return true;
}
using stream_states =
    type_list<partial, replicated, invariant, sharded<batch>, sharded<sequence>, sharded<hidden>>;
constexpr bool held_in_every_placement(const shape<stream>& global, int data, int tensor) {
  return for_every_pair<stream_states, stream_states>(
      [&]<class S, class T>() { return each_element_is_held<S, T>(global, data, tensor); });
}
static_assert(each_element_is_held<sharded<batch>, sharded<batch>>({5, 1, 2}, 2, 3));
static_assert(each_element_is_held<sharded<batch>, sharded<hidden>>({3, 1, 2}, 2, 3));
static_assert(each_element_is_held<sharded<hidden>, replicated>({2, 1, 3}, 4, 2));

// Two axes that cut one dim, in pieces of pieces: 7 over 2 is 4 and 3, and those over 3.
constexpr bool nested() {
  const layout<stream, on_grid<sharded<batch>, sharded<batch>>> l({7, 1, 1}, grid({2, 3}));
  constexpr std::array<region, 6> pieces{region{0, 2}, region{2, 1}, region{3, 1},
                                         region{4, 1}, region{5, 1}, region{6, 1}};
  for (int r = 0; r < 6; ++r) {
    if (l.seen_from(r).of<batch>() != pieces[static_cast<std::size_t>(r)]) return false;
  }
  return l.partition_on<axis::tensor>().extent() == 4 &&
         l.seen_from(5).partition_on<axis::tensor>().extent() == 3 &&
         l.partition_on<axis::data>().extent() == 7;
}
static_assert(nested());

// Partitions that are not balanced: given on one axis, kept by moves on the other, lost by a move
// on their own.
constexpr bool weighted_ranks() {
  using cut_tokens = on_grid<sharded<sequence>, replicated>;
  const layout<stream, cut_tokens> plain({2, 12, 4}, grid({3, 2}, 2));
  const auto weights = partition::weighted(12, {1, 2, 1});
  const auto uneven = plain.with<axis::data>(weights);
  if (uneven.of<sequence>() != region{3, 6} || uneven.elements() != 2 * 6 * 4) return false;
  if (!uneven.is_custom<axis::data>() || uneven.is_custom<axis::tensor>()) return false;
  if (uneven.seen_from(5).of<sequence>() != region{9, 3}) return false;
  const auto split = uneven.moved<axis::tensor, sharded<hidden>>();
  if (split.of<sequence>() != region{3, 6} || split.of<hidden>() != region{0, 2}) return false;
  if (split.partition_on<axis::data>() != weights) return false;
  const auto whole = split.moved<axis::data, replicated>();
  if (whole.is_custom<axis::data>() || whole.of<sequence>() != region{0, 12}) return false;
  // Within the uneven piece the inner axis cuts balanced.
  const auto inner = uneven.moved<axis::tensor, sharded<sequence>>();
  if (inner.of<sequence>() != region{3, 3}) return false;
  // The balanced partition given by hand is the layout that one gets anyway.
  return uneven.with<axis::data>(partition::balanced(12, 3)) == plain && uneven != plain;
}
static_assert(weighted_ranks());

// Two kv heads over three ranks whose queries use heads 0, 0 and 1, 1: the regions overlap.
constexpr bool overlapping() {
  using spread_heads = placement<on<axis::tensor, sharded<kv_heads>>>;
  const layout<dims<kv_heads, head_width>, spread_heads> own({2, 5}, mesh<axis::tensor>({3}));
  const auto use =
      own.with<axis::tensor>(partition::of_regions(2, {region{0, 1}, region{0, 2}, region{1, 1}}));
  return use.elements() == 5 && use.seen_from(1).elements() == 10 &&
         use.seen_from(2).of<kv_heads>() == region{1, 1} &&
         !use.partition_on<axis::tensor>().covers_once() && own.seen_from(2).elements() == 0;
}
static_assert(overlapping());

// Moves on different axes that cut different dims commute: the layouts are the same.
template <class S0, class T0, class S, class T>
constexpr bool commutes_from(const shape<stream>& global, int data, int tensor, int rank) {
  const layout<stream, on_grid<S0, T0>> start(global, grid({data, tensor}, rank));
  return start.template moved<axis::data, S>().template moved<axis::tensor, T>() ==
         start.template moved<axis::tensor, T>().template moved<axis::data, S>();
}
constexpr bool commutes(const shape<stream>& global, int data, int tensor, int rank) {
  return for_every_pair<stream_states, stream_states>([&]<class S, class T>() {
    return commutes_from<partial, partial, S, T>(global, data, tensor, rank) &&
           commutes_from<sharded<batch>, sharded<hidden>, S, T>(global, data, tensor, rank) &&
           commutes_from<invariant, sharded<sequence>, S, T>(global, data, tensor, rank);
  });
}
static_assert(commutes({5, 4, 3}, 2, 3, 4));

}  // namespace

BOOST_AUTO_TEST_SUITE(layouts)

BOOST_AUTO_TEST_CASE(balanced_partitions_deal_the_indices) { BOOST_TEST(balanced_up_to(70, 33)); }

BOOST_AUTO_TEST_CASE(every_element_is_held_where_its_placement_says) {
  for (const auto& [data, tensor] : {std::pair{1, 1}, {2, 3}, {4, 2}, {3, 5}, {1, 8}}) {
    BOOST_TEST(held_in_every_placement({5, 4, 7}, data, tensor));
    BOOST_TEST(held_in_every_placement({2, 1, 3}, data, tensor));
    BOOST_TEST(held_in_every_placement({0, 4, 1}, data, tensor));
  }
}

BOOST_AUTO_TEST_CASE(moves_on_different_axes_commute) {
  for (int rank = 0; rank < 6; ++rank) {
    BOOST_TEST(commutes({5, 4, 3}, 3, 2, rank));
    BOOST_TEST(commutes({1, 0, 9}, 2, 3, rank));
  }
}

BOOST_AUTO_TEST_CASE(partitions_that_mean_nothing_are_refused) {
  BOOST_CHECK_THROW(partition::balanced(5, 0), error);
  BOOST_CHECK_THROW(partition::balanced(-1, 2), error);
  BOOST_CHECK_THROW(partition::weighted(5, {}), error);
  BOOST_CHECK_THROW(partition::weighted(5, {0, 0}), error);
  BOOST_CHECK_THROW(partition::weighted(5, {2, -1, 1}), error);
  BOOST_CHECK_THROW(partition::of_regions(5, {}), error);
  BOOST_CHECK_THROW(partition::of_regions(5, {{3, 3}}), error);
  BOOST_CHECK_THROW(partition::of_regions(5, {{-1, 3}}), error);
  BOOST_CHECK_THROW((shape<stream>(5, -1, 2)), error);
}

BOOST_AUTO_TEST_CASE(partitions_that_do_not_fit_are_refused) {
  const layout<stream, on_grid<sharded<batch>, sharded<batch>>> l({7, 1, 1}, grid({2, 3}));
  BOOST_CHECK_THROW(l.with<axis::data>(partition::balanced(7, 3)), error);
  BOOST_CHECK_THROW(l.with<axis::data>(partition::balanced(6, 2)), error);
  BOOST_CHECK_THROW(l.with<axis::tensor>(partition::balanced(7, 3)), error);
  // An inner partition belongs to the piece of one outer rank: 4 indices on the first, 3 on the
  // other.
  const auto inner = l.with<axis::tensor>(partition::weighted(4, {2, 0, 2}));
  BOOST_TEST((inner.seen_from(2).of<batch>() == region{2, 2}));
  BOOST_CHECK_THROW(inner.seen_from(3), error);
  BOOST_CHECK_THROW(inner.with<axis::data>(partition::weighted(7, {1, 6})), error);
}

BOOST_AUTO_TEST_SUITE_END()
