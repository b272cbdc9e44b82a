// SPDX-License-Identifier: Apache-2.0
// Owner and use: regions that overlap, and dims that two axes cut.
#include <boost/test/unit_test.hpp>

#include "moves.hpp"
#include "tenon/placement/traffic.hpp"
#include "tenon/tensor/spread.hpp"

using namespace tenon_test;

namespace {

// What each of the ranks uses of a dim: from nothing to everything, neighbours overlapping.
partition used(std::int64_t extent, int parts, int kind) {
  std::vector<region> regions;
  for (int r = 0; r < parts; ++r) {
    const region own = partition::balanced(extent, parts).of(r);
    if (kind == 0) {
      regions.push_back({0, extent});  // all use all
    } else if (kind == 1) {
      const std::int64_t begin = std::max<std::int64_t>(0, own.begin - 1);
      regions.push_back({begin, std::min(extent, own.end() + 1) - begin});
    } else {
      regions.push_back(r % 2 == 1 ? region{0, 0} : region{extent / 2, extent - extent / 2});
    }
  }
  return partition::of_regions(extent, regions);
}

template <class E, class D>
void check_spread(findings& found, ranks<line_mesh>& group, const shape<cube>& global) {
  using S = sharded<D>;
  for (const int kind : {0, 1, 2}) {
    const auto what = joined("spread of ", D::name, ", ", name_of(kind_of<E>), ", ", group.size(),
                             " ranks, kind ", kind);
    const partition use = used(global.template of<D>(), group.size(), kind);
    auto x = placed<E, S>(group, global, true);
    fill_numbers(x, 1);
    auto& line = group.on<axis::tensor>();
    const auto counted = [&] {
      std::int64_t bytes = 0;
      for (const auto& [key, row] : group.ledger().rows()) bytes += row.bytes;
      return bytes;
    };
    const std::int64_t bytes_before = counted();
    auto y = spread_to<axis::tensor>(x, use, "x");
    // The ledger counts what a rank sends; over all ranks that is what they lack.
    std::int64_t numbers[2] = {
        counted() - bytes_before,
        elements_spread<axis::tensor>(x.where(), y.where()) * static_cast<std::int64_t>(sizeof(E))};
    line.call({.call = collective::all_reduce,
               .element = element_kind::int64,
               .from = numbers,
               .to = numbers,
               .count = 2},
              {.tensor = "bytes"}, call_site::here());
    found.equal(numbers[0], numbers[1], what + ": bytes");
    found.expect(y.where().template of<D>() == use.of(group.rank()), what + ": the region");
    for_each_global_index(y, [&](E& value, std::int64_t index) {
      found.equal(static_cast<std::int64_t>(value), number_at(index, 0, 1), what);
    });

    // Backward: what every rank has of the gradient, added up at the owner.
    tensor<E, cube, on_line<S>> g(group, y.where());
    for_each_global_index(g, [&](E& value, std::int64_t index) {
      value = E(static_cast<float>(number_at(index, group.rank(), 2)));
    });
    auto a = sum_to_owners<axis::tensor>(g, x.where().template partition_on<axis::tensor>(), "g");
    found.expect(a.where() == x.where(), what + ": the owners' layout");
    found.equal(pairing(x, a), pairing(y, g), what + ": <A' y, x> and <y, A x>");
    constexpr std::size_t d = cube::position<D>;
    for_each_global_index(a, [&](E& value, std::int64_t index) {
      std::int64_t stride = 1;
      for (std::size_t i = d + 1; i < cube::size; ++i) stride *= global.extents[i];
      const std::int64_t place = index / stride % global.extents[d];
      std::int64_t sum = 0;
      for (int r = 0; r < group.size(); ++r) {
        if (place >= use.of(r).begin && place < use.of(r).end()) sum += number_at(index, r, 2);
      }
      found.equal(static_cast<std::int64_t>(value), sum, what + ": the sum at the owner");
    });
  }
}

// One dim cut by two axes, the outer first.
void check_two_cuts(findings& found, ranks<mesh<axis::data, axis::tensor>>& group,
                    std::int64_t extent) {
  using twice = placement<on<axis::data, sharded<rows>>, on<axis::tensor, sharded<rows>>>;
  using outer = placement<on<axis::data, sharded<rows>>, on<axis::tensor, invariant>>;
  const shape<dims<rows, columns>> global{extent, 3};
  const auto what = joined("two cuts of ", extent, " on ", group.grid().text());
  tensor<fp64, dims<rows, columns>, twice> x(group, global);
  const auto fill = [](auto& t) {
    for_each_global_index(
        t, [](fp64& v, std::int64_t index) { v = static_cast<double>(number_at(index, 0, 1)); });
  };
  const auto check = [&](auto t) {
    for_each_global_index(t, [&](fp64& v, std::int64_t index) {
      found.equal(static_cast<std::int64_t>(v), number_at(index, 0, 1), what);
    });
    return t;
  };
  fill(x);
  auto whole_inside = check(redistribute<axis::tensor, invariant>(x));
  static_assert(std::is_same_v<decltype(whole_inside), tensor<fp64, dims<rows, columns>, outer>>);
  auto whole = check(redistribute<axis::data, invariant>(whole_inside));
  found.equal(whole.elements(), extent * 3, what);
  auto cut = check(redistribute<axis::data, sharded<rows>>(whole));
  auto cut_again = check(redistribute<axis::tensor, sharded<rows>>(cut));
  found.expect(cut_again.where() == x.where(), what + ": the layout after both cuts");
  // The inner cut to another dim and back, while the outer stays.
  auto other = check(redistribute<axis::tensor, sharded<columns>>(cut_again));
  auto back = check(redistribute<axis::tensor, sharded<rows>>(other));
  found.expect(back.where() == x.where(), what + ": the layout after two all-to-alls");
}

}  // namespace

BOOST_AUTO_TEST_CASE(spread_and_its_backward) {
  findings found;
  for (const int size : {1, 2, 3, 4, 7}) {
    simulate(size, [&](transport& world) {
      ranks<line_mesh> group(world, line_mesh({size}));
      for (const shape<cube>& global : {shape<cube>{4, 8, 12}, shape<cube>{5, 3, 2}}) {
        check_spread<fp64, rows>(found, group, global);
        check_spread<fp64, middle>(found, group, global);
        check_spread<fp32, columns>(found, group, global);
      }
    });
  }
  BOOST_TEST(found.first() == "");
}

BOOST_AUTO_TEST_CASE(one_dim_on_two_axes) {
  findings found;
  for (const auto& [data, tensor] : {std::pair{1, 3}, {2, 2}, {3, 1}, {2, 3}, {3, 2}}) {
    simulate(data * tensor, [&, data = data, tensor = tensor](transport& world) {
      using grid = mesh<axis::data, axis::tensor>;
      ranks<grid> group(world, grid({data, tensor}));
      for (const std::int64_t extent : {0, 1, 5, 7, 12}) check_two_cuts(found, group, extent);
    });
  }
  BOOST_TEST(found.first() == "");
}
