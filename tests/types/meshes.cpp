// SPDX-License-Identifier: Apache-2.0
// The arithmetic of meshes.
#include <array>
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <vector>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

// The last axis is the fastest: rank 5 of 2 x 4 is (1, 1).
constexpr mesh<axis::data, axis::tensor> grid({2, 4}, 5);
static_assert(grid.size() == 8 && grid.rank() == 5);
static_assert(grid.extent<axis::data>() == 2 && grid.extent<axis::tensor>() == 4);
static_assert(grid.coordinate<axis::data>() == 1 && grid.coordinate<axis::tensor>() == 1);
static_assert(grid.coordinates() == std::array{1, 1});
static_assert(grid.has<axis::data> && !grid.has<axis::context>);

// Every rank has coordinates of its own, and from them its number.
template <class Mesh>
constexpr bool numbers_its_ranks(const Mesh& m) {
  std::vector<int> seen(static_cast<std::size_t>(m.size()), 0);
  for (int rank = 0; rank < m.size(); ++rank) {
    const auto at = m.seen_from(rank).coordinates();
    int number = 0;
    for (std::size_t i = 0; i < Mesh::dimensions; ++i) {
      if (at[i] < 0 || at[i] >= m.extents()[i]) return false;
      number = number * m.extents()[i] + at[i];
    }
    if (number != rank) return false;
    ++seen[static_cast<std::size_t>(number)];
  }
  for (int count : seen) {
    if (count != 1) return false;
  }
  return true;
}
static_assert(numbers_its_ranks(grid));
static_assert(numbers_its_ranks(mesh<axis::pipeline, axis::data, axis::tensor>({3, 1, 5})));
static_assert(numbers_its_ranks(mesh<axis::context, shelf, axis::tensor>({2, 3, 2})));
static_assert(numbers_its_ranks(mesh<>{}));

// A flat axis of a mesh that is split is the pair, outer first.
using split_mesh = mesh<axis::data_replicate, axis::data_shard, axis::tensor>;
constexpr bool flat_axis_is_the_pair() {
  const split_mesh split({2, 3, 4});
  const mesh<axis::data, axis::tensor> flat({6, 4});
  for (int rank = 0; rank < 24; ++rank) {
    const auto s = split.seen_from(rank);
    const auto f = flat.seen_from(rank);
    if (s.coordinate<axis::data>() != f.coordinate<axis::data>()) return false;
    if (s.coordinate<axis::tensor>() != f.coordinate<axis::tensor>()) return false;
    if (s.color<axis::data>() != f.color<axis::data>()) return false;
    if (s.color<axis::tensor>() != f.color<axis::tensor>()) return false;
    if (s.coordinate<axis::data>() !=
        s.coordinate<axis::data_replicate>() * 3 + s.coordinate<axis::data_shard>()) {
      return false;
    }
  }
  return split.extent<axis::data>() == 6 && split.has<axis::data>;
}
static_assert(flat_axis_is_the_pair());
static_assert(is_part_of<axis::context_ring, axis::context> && is_part_of<axis::data, axis::data>);
static_assert(!is_part_of<axis::data, axis::data_shard> && !is_part_of<shelf, axis::data>);

// Ranks of one colour are the group of an axis: as many as the axis is long, each at a place of its
// own, and as many groups as there are ranks without the axis.
template <class Axis, class Mesh>
constexpr bool groups(const Mesh& m) {
  const int length = m.template extent<Axis>();
  std::vector<int> members(static_cast<std::size_t>(m.size()), 0);
  for (int rank = 0; rank < m.size(); ++rank) {
    const auto here = m.seen_from(rank);
    const int color = here.template color<Axis>();
    const int place = here.template coordinate<Axis>();
    if (color < 0 || color >= m.size() / length || place < 0 || place >= length) return false;
    ++members[static_cast<std::size_t>(color * length + place)];
  }
  for (int count : members) {
    if (count != 1) return false;
  }
  return true;
}
static_assert(groups<axis::data>(grid) && groups<axis::tensor>(grid));
static_assert(groups<axis::data>(split_mesh({2, 3, 2})));
static_assert(groups<axis::data_replicate>(split_mesh({2, 3, 2})));
static_assert(groups<axis::data_shard>(split_mesh({2, 3, 2})));

// A mesh may be given in braces or from an array; alone it is one rank.
static_assert(mesh<axis::data, axis::tensor>({3, 2}).size() == 6);
static_assert(mesh<axis::data>({3}) == mesh<axis::data>(std::array<int, 1>{3}));
static_assert(mesh<axis::data, axis::tensor>{}.size() == 1);
static_assert(mesh<>{}.size() == 1 && mesh<>{}.rank() == 0);

}  // namespace

BOOST_AUTO_TEST_SUITE(meshes)

BOOST_AUTO_TEST_CASE(extents_and_ranks_that_cannot_be_are_refused) {
  using line = mesh<axis::data>;
  BOOST_CHECK_THROW(line({0}), error);
  BOOST_CHECK_THROW(line({-3}), error);
  BOOST_CHECK_THROW(line({4}, 4), error);
  BOOST_CHECK_THROW(line({4}, -1), error);
  BOOST_CHECK_THROW(line({4}).seen_from(7), error);
  // The number of ranks is an int.
  BOOST_CHECK_THROW((mesh<axis::data, axis::tensor>({1 << 16, 1 << 16})), error);
  BOOST_CHECK_THROW((mesh<axis::pipeline, axis::data, axis::tensor>({1 << 20, 1 << 20, 1 << 24})),
                    error);
}

BOOST_AUTO_TEST_CASE(texts_name_axes_and_dims) {
  BOOST_TEST(grid.text() == "data 2 x tensor 4");
  using held = placement<on<axis::data, sharded<batch>>, on<axis::context, replicated>,
                         on<axis::tensor, partial>>;
  BOOST_TEST(held::text() == "data: sharded<batch>, context: replicated, tensor: partial");
  using held_alike = placement<on<axis::data, invariant>>;
  BOOST_TEST(constant<held_alike>::text() == "constant, data: invariant");
  using maxima = placement<on<axis::tensor, partial_of<reduction::maximum>>>;
  BOOST_TEST(maxima::text() == "tensor: partial_of<maximum>");
  BOOST_TEST((dims<batch, rack>::text() == "batch, rack"));
}

BOOST_AUTO_TEST_SUITE_END()
