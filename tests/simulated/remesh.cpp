// SPDX-License-Identifier: Apache-2.0
// The move between two meshes over the same ranks, and models whose layers live on several.
#include "tenon/tensor/remesh.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "layers.hpp"
#include "tenon/tensor/random.hpp"
#include "training.hpp"

using namespace tenon_test;

namespace {

template <class OnData, class OnTensor>
using placed = on_grid<OnData, OnTensor>;

// From one mesh and placement to another and back: the values of the global index, the same bits
// after the way back, and the bytes that a rank needs and did not hold.
template <class P, class Q>
void check(std::vector<int> from, std::vector<int> to, shape<dims<batch, hidden>> extents) {
  const int size = from[0] * from[1];
  findings found;
  simulate(size, [&](transport& world) {
    ranks<grid> here(world, grid({from[0], from[1]}));
    auto there = ranks<grid>::beside(here, grid({to[0], to[1]}));
    tensor<fp64, dims<batch, hidden>, P> x(here, extents);
    for_each_global_index(x, [](fp64& v, std::int64_t i) { v = 0.1 * static_cast<double>(i + 1); });
    const layout<dims<batch, hidden>, Q> wanted(extents, there.grid());
    auto& line = here.along(ranks<grid>::all_axes);
    const auto copied = line.group().copied_bytes();
    auto y = remesh<Q>(x, there, wanted, "x");
    for_each_global_index(y, [&](fp64& v, std::int64_t i) {
      found.equal(v, 0.1 * static_cast<double>(i + 1), "a value on the other mesh");
    });
    if (size > 1) {
      const std::int64_t sent = remesh_elements(x.where(), wanted) * 8;
      found.equal(line.group().copied_bytes() - copied, sent, "bytes sent");
      found.equal(here.ledger().row(line.axis(), "all_to_all").bytes, sent, "bytes counted");
      // Over all ranks: what each needs and did not hold.
      std::int64_t needed = 0;
      std::int64_t all_sent = 0;
      for (int r = 0; r < size; ++r) {
        const auto had = x.where().seen_from(r).regions();
        const auto has = wanted.seen_from(r).regions();
        needed += detail::elements_of(has) - detail::elements_of(detail::shared_box(had, has));
        all_sent += remesh_elements(x.where().seen_from(r), wanted);
      }
      found.equal(all_sent, needed, "elements over all ranks");
    }
    const auto back = remesh<P>(y, here, x.where(), "x");
    found.equal(back.elements(), x.elements(), "elements after the way back");
    if (x.elements() > 0) {
      found.equal(std::memcmp(back.data(), x.data(), static_cast<std::size_t>(x.elements()) * 8), 0,
                  "bits after the way back");
    }
  });
  BOOST_TEST(found.first() == "");
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_pair_of_placements) {
  using rows_and_columns = placed<sharded<batch>, sharded<hidden>>;
  using columns_and_rows = placed<sharded<hidden>, sharded<batch>>;
  using rows_twice = placed<sharded<batch>, sharded<batch>>;
  using whole = placed<invariant, invariant>;
  using rows = placed<sharded<batch>, invariant>;
  for (const auto& extents : {shape<dims<batch, hidden>>{8, 6}, shape<dims<batch, hidden>>{5, 7},
                              shape<dims<batch, hidden>>{1, 3}, shape<dims<batch, hidden>>{0, 4}}) {
    for (const auto& [from, to] : {std::pair(std::vector{1, 1}, std::vector{1, 1}),
                                   std::pair(std::vector{2, 2}, std::vector{4, 1}),
                                   std::pair(std::vector{4, 2}, std::vector{2, 4}),
                                   std::pair(std::vector{3, 2}, std::vector{1, 6}),
                                   std::pair(std::vector{7, 1}, std::vector{1, 7})}) {
      check<rows_and_columns, columns_and_rows>(from, to, extents);
      check<rows_twice, rows>(from, to, extents);
      check<rows, rows_and_columns>(from, to, extents);
      check<whole, rows_twice>(from, to, extents);
      check<rows, whole>(from, to, extents);
      check<columns_and_rows, columns_and_rows>(from, to, extents);
    }
  }
}

BOOST_AUTO_TEST_CASE(other_ranks_are_refused) {
  findings found;
  simulate(4, [&](transport& world) {
    ranks<grid> here(world, grid({2, 2}));
    const auto half = world.split(world.rank() / 2, world.rank());
    ranks<grid> there(*half, grid({2, 1}));
    tensor<fp64, dims<batch, hidden>, placed<sharded<batch>, invariant>> x(here, {4, 2});
    std::string said;
    try {
      remesh<placed<sharded<batch>, invariant>>(x, there, {{4, 2}, there.grid()}, "x");
    } catch (const error& e) {
      said = e.what();
    }
    found.expect(said.find("are not over the same ranks") != std::string::npos, said);
  });
  BOOST_TEST(found.first() == "");
}

// Models of three blocks, each on a mesh of its own, equal one rank.
BOOST_AUTO_TEST_CASE(layers_on_different_meshes) {
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    training_request request;
    request.shape = small_shape(form);
    request.shape.layers = 3;
    request.steps = 3;
    const training_outcome serial = run_training(request);
    for (const bool split : {false, true}) {
      for (const std::vector<std::pair<int, int>>& meshes :
           {std::vector<std::pair<int, int>>{{4, 1}, {2, 2}, {1, 4}},
            std::vector<std::pair<int, int>>{{1, 4}, {4, 1}, {4, 1}},
            std::vector<std::pair<int, int>>{{2, 2}, {1, 4}, {2, 2}}}) {
        for (const shards stage : {shards::none, shards::parameters}) {
          training_request mixed = request;
          mixed.data = 2;
          mixed.tensor = 2;
          mixed.split_sequence = split;
          mixed.shards = {.stage = stage};
          mixed.block_meshes = meshes;
          BOOST_TEST_CONTEXT(text_of(mixed)) {
            const training_outcome parallel = run_training(mixed);
            for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
            BOOST_TEST(missed_bars(compare(serial, parallel)) == "");
          }
        }
      }
    }
  }
}
