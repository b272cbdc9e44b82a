// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/test/unit_test.hpp>

#include "tenon/layer/assignment.hpp"
#include "tenon/layer/gradient_check.hpp"

using namespace tenon;
using both_axes = mesh<axis::data, axis::tensor>;

// Activations [batch, sequence, ...]: the batch cut on data, state S on tensor.
template <class S, class... Ds>
using tokens_of = tenon::tensor<fp64, dims<batch, sequence, Ds...>,
                                placement<on<axis::data, sharded<batch>>, on<axis::tensor, S>>>;
template <class S>
using stream = tokens_of<S, hidden>;

// What the axis tensor cuts in weights.
using cuts_of_weights = assignment<carry<axis::tensor, heads, kv_heads, ffn, vocabulary>>;

// The regions of kv heads that ranks read whose heads are cut: two heads read one kv head.
inline partition read_kv_heads(int parts) {
  const auto of_heads = partition::balanced(4, parts);
  std::vector<region> read;
  for (int r = 0; r < parts; ++r) {
    const region mine = of_heads.of(r);
    const std::int64_t begin = mine.begin / 2;
    read.push_back(mine.size == 0 ? region{} : region{begin, (mine.end() + 1) / 2 - begin});
  }
  return partition::of_regions(2, std::move(read));
}

// Sizes that two and three ranks do not divide.
inline dim_sizes uneven_sizes() {
  dim_sizes sizes;
  sizes.set<batch>(3)
      .set<sequence>(5)
      .set<positions>(5)
      .set<hidden>(8)
      .set<heads>(4)
      .set<kv_heads>(2)
      .set<head_width>(2)
      .set<ffn>(7)
      .set<vocabulary>(11)
      .set_use<kv_heads>(read_kv_heads);
  return sizes;
}

// Meshes data x tensor; with data 4, one rank has no sequence.
inline constexpr std::array<std::array<int, 2>, 7> meshes{
    {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {2, 3}, {4, 1}}};

// Backward of L must be the slope of its forward, on every mesh.
template <class L, class In>
void check_layer(gradient_check_options options = {}) {
  options.elements = std::min<std::int64_t>(options.elements, 4);
  for (const auto& extents : meshes) {
    const both_axes grid(extents);
    const gradient_report found = gradient_check<L, In>(grid, uneven_sizes(), options);
    BOOST_TEST_CONTEXT(grid.text() << "\n" << found.text()) {
      BOOST_TEST(!found.all.empty());
      BOOST_TEST(found.largest() < 1e-6);
    }
  }
}
