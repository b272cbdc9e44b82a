// SPDX-License-Identifier: Apache-2.0
// Groups of a mesh, the ledger, started calls, and how much a small call costs.
#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "tenon/communicate/one_rank.hpp"
#include "tenon/communicate/ranks.hpp"
#include "tenon/communicate/simulated.hpp"

using namespace tenon_test;

namespace {

using grid = mesh<axis::data_replicate, axis::data_shard, axis::expert, axis::tensor>;
using group_of_both = type_list<axis::data, axis::expert>;

/// The ranks of the run that are in a group, in the group's order.
std::vector<std::int32_t> members(communicator& group, int world_rank) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(group.size()));
  const std::vector<std::int32_t> mine{world_rank};
  communicate::all_gather(group, mine, std::span(all));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_run_along_their_axes) {
  simulate(8, [](transport& world) {
    ranks<grid, group_of_both> all(world, grid({2, 2, 1, 2}));
    const int me = world.rank();
    const auto is = [](const std::vector<std::int32_t>& a, std::vector<std::int32_t> b) {
      return a == b;
    };
    const std::int32_t low = me % 2, pair = me - low, shard = me / 2 % 2;
    expect(is(members(all.on<axis::tensor>(), me), {pair, pair + 1}), "tensor");
    expect(is(members(all.on<axis::data_replicate>(), me), {2 * shard + low, 2 * shard + low + 4}),
           "data_replicate");
    expect(is(members(all.on<axis::data_shard>(), me), {me / 4 * 4 + low, me / 4 * 4 + low + 2}),
           "data_shard");
    expect(is(members(all.on<axis::data>(), me), {low, low + 2, low + 4, low + 6}), "data");
    expect(is(members(all.on<axis::data, axis::expert>(), me), {low, low + 2, low + 4, low + 6}),
           "data x expert");
    expect(is(members(all.on<axis::expert>(), me), {me}), "expert");
    expect(is(members(all.everyone(), me), {0, 1, 2, 3, 4, 5, 6, 7}), "all");
    expect(all.on<axis::data>().rank() == all.grid().coordinate<axis::data>(), "place in data");
    expect(all.on<axis::data>().axis() == "data", "name of data");
    expect(all.on<axis::data, axis::expert>().axis() == "data x expert", "name of data x expert");
    expect(all.grid().rank() == me && all.size() == 8, "the grid is seen from the rank");
    all.compare_plans();
  });
}

BOOST_AUTO_TEST_CASE(a_flat_axis_with_one_part_is_that_part) {
  simulate(2, [](transport& world) {
    ranks<mesh<axis::data_shard>> all(world, mesh<axis::data_shard>({2}));
    expect(&all.on<axis::data>() == &all.on<axis::data_shard>(), "data is data_shard");
  });
}

BOOST_AUTO_TEST_CASE(a_wrong_product_of_extents_is_one_sentence) {
  const auto run = [] {
    simulate(3, [](transport& world) {
      ranks<mesh<axis::data, axis::tensor>> all(world, mesh<axis::data, axis::tensor>({2, 2}));
    });
  };
  BOOST_CHECK_EXCEPTION(run(), error, [](const error& e) {
    return e.kind() == error_kind::bad_request &&
           std::string(e.what()) ==
               "the mesh data 2 x tensor 2 needs 4 ranks, and this run has 3; give extents whose "
               "product is 3, or start 4 ranks: mpirun -n 4";
  });
}

BOOST_AUTO_TEST_CASE(absent_ranks_are_for_shapes_alone) {
  auto all =
      ranks<mesh<axis::data, axis::tensor>>::absent(mesh<axis::data, axis::tensor>({2, 4}, 6));
  BOOST_TEST(all.rank() == 6);
  BOOST_TEST(all.on<axis::tensor>().rank() == 2);
  BOOST_TEST(all.on<axis::tensor>().size() == 4);
  BOOST_TEST(all.everyone().size() == 8);
  std::vector<float> values(3, 1.0F);
  BOOST_CHECK_EXCEPTION(
      communicate::all_reduce(all.on<axis::data>(), std::span(values)), error, [](const error& e) {
        return std::string(e.what()) ==
               "all_reduce: rank 1 of 2 is looked at alone and the other ranks are absent; call it "
               "while shapes_only lives";
      });
  const shapes_only dry;
  communicate::all_reduce(all.on<axis::data>(), std::span(values));
  communicate::barrier(all.everyone());
  all.compare_plans();
  BOOST_TEST(values[0] == 1.0F);
}

BOOST_AUTO_TEST_CASE(nothing_is_called_on_one_rank) {
  ranks<mesh<axis::data>> all(std::make_unique<one_rank>(), mesh<axis::data>({1}));
  communicator& group = all.on<axis::data>();
  const std::vector<float> from{1, 2, 3};
  std::vector<float> to(3);
  const counts three{3};
  const auto is_copied = [&] {
    const bool same = to == from;
    to.assign(3, 0.0F);
    return same;
  };
  communicate::all_reduce(group, from, std::span(to));
  BOOST_TEST(is_copied());
  communicate::all_gather(group, from, std::span(to));
  BOOST_TEST(is_copied());
  communicate::reduce_scatter(group, from, std::span(to), std::span(three));
  BOOST_TEST(is_copied());
  communicate::all_to_all(group, from, std::span(three), std::span(to), std::span(three));
  BOOST_TEST(is_copied());
  communicate::barrier(group);
  communicate::broadcast(group, std::span(to));
  BOOST_TEST(all.ledger().rows().empty());
  BOOST_TEST(all.ledger().seconds() == 0.0);
}

BOOST_AUTO_TEST_CASE(the_ledger_counts_by_axis_call_phase_and_step) {
  simulate(4, [](transport& world) {
    ranks<mesh<axis::data, axis::tensor>> all(world, mesh<axis::data, axis::tensor>({2, 2}));
    std::vector<double> values(5);
    ledger& book = all.ledger();
    {
      const phase_scope inside(book, "forward");
      communicate::all_reduce(all.on<axis::tensor>(), std::span(values));
      communicate::all_reduce(all.on<axis::tensor>(), std::span(values));
    }
    book.mark();
    all.set_step(1);
    const phase_scope inside(book, "gradients");
    communicate::all_reduce(all.on<axis::data>(), std::span(values));
    communicate::all_reduce(all.on<axis::tensor>(), std::span(values));

    const std::int64_t own = all.on<axis::tensor>().rank() == 0 ? 3 : 2;  // of 5 over 2
    const std::int64_t once = 2 * (5 - own);
    expect(book.rows().size() == 3, "three rows", static_cast<std::int64_t>(book.rows().size()));
    const ledger_row& forward =
        book.rows().find(ledger_key{"tensor", "all_reduce", "forward"})->second;
    expect(forward.calls == 2 && forward.elements == 2 * once && forward.bytes == 16 * once,
           "forward", forward.bytes, 16 * once);
    expect(forward.seconds > 0, "seconds are counted");
    expect(book.bytes_since_mark().at("tensor") == 8 * once, "since the mark");
    expect(book.bytes_by_axis().at("tensor") == 24 * once, "since the beginning");
    expect(book.seconds_since_mark() < book.seconds(), "seconds since the mark");
    expect(book.step() == 1, "the step");
    book.restart();
    expect(book.bytes_by_axis().at("tensor") == 0, "a new beginning");
  });
}

BOOST_AUTO_TEST_CASE(started_calls_end_in_any_order) {
  simulate(3, [](std::unique_ptr<transport> world) {
    ledger book;
    communicator group(std::move(world), "data", book);
    std::vector<double> a(10, 1), b(20, 2), c(30, 3);
    pending first =
        communicate::all_reduce(group, std::span(a), reduction_kind::sum, {.start_only = true});
    pending second =
        communicate::all_reduce(group, std::span(b), reduction_kind::sum, {.start_only = true});
    // Ranks wait in different orders; a transport's own calls may do so.
    if (group.rank() == 1) {
      second.wait();
      first.wait();
    } else {
      first.wait();
      second.wait();
    }
    {
      // Nobody keeps this one: it ends here.
      communicate::all_reduce(group, std::span(c), reduction_kind::sum, {.start_only = true});
    }
    expect(a[9] == 3 && b[19] == 6 && c[29] == 9, "sums of started calls");
  });
}

BOOST_AUTO_TEST_CASE(a_group_splits_by_colour_and_key) {
  simulate(5, [](std::unique_ptr<transport> world) {
    ledger book;
    const int me = world->rank();
    communicator group(std::move(world), "all", book);
    const auto part = group.split(me % 2, -me, "part");
    const std::vector<std::int32_t> right =
        me % 2 == 0 ? std::vector<std::int32_t>{4, 2, 0} : std::vector<std::int32_t>{3, 1};
    expect(members(*part, me) == right, "members by colour, ordered by key");
    expect(part->axis() == "part", "name of the part");
  });
}

// Simulated ranks carry the tests of everything above them: thousands of small calls must be cheap.
BOOST_AUTO_TEST_CASE(thousands_of_small_calls) {
  simulate(8, [](std::unique_ptr<transport> world) {
    ledger book;
    communicator group(std::move(world), "data", book);
    std::vector<float> values(8, 1.0F);
    for (int call = 0; call < 3000; ++call) {
      values.assign(8, 1.0F);
      communicate::all_reduce(group, std::span(values));
      expect(values[7] == 8.0F, "sum", call);
    }
  });
}
