// SPDX-License-Identifier: Apache-2.0
// Layers on a grid of ranks: backward against finite differences on 1 x 1, 2 x 2 and 3 x 3 ranks,
// which the sizes do not divide, beside a data axis.
#include <boost/test/unit_test.hpp>

#include "checked.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/cut_normalization.hpp"
#include "tenon/layer/grid_embedding.hpp"
#include "tenon/layer/grid_linear.hpp"

namespace {

using grid_mesh = mesh<axis::data, axis::tensor_row, axis::tensor_column>;
using on_grid = grid_assignment<axis::tensor_row, axis::tensor_column, hidden, heads, kv_heads, ffn,
                                vocabulary>;
template <class S>
using placed = placement<on<axis::data, sharded<batch>>, on<axis::tensor_row, sharded<batch>>,
                         on<axis::tensor_column, S>>;
template <class... Ds>
using cut_tokens = tenon::tensor<fp64, dims<batch, sequence, Ds...>,
                                 placed<sharded<std::tuple_element_t<0, std::tuple<Ds...>>>>>;
using grid_stream = cut_tokens<hidden>;
using words = tenon::tensor<std::int32_t, dims<batch, sequence>, constant<placed<invariant>>>;

constexpr gradient_check_options eleven{.tokens_below = 11};

template <class L, class In>
void check_on_grids(gradient_check_options options = {}) {
  options.elements = 3;
  for (const auto& extents : {std::array{1, 1, 1}, std::array{2, 1, 1}, std::array{1, 2, 2},
                              std::array{2, 2, 2}, std::array{1, 3, 3}}) {
    const grid_mesh grid(extents);
    const gradient_report found = gradient_check<L, In>(grid, uneven_sizes(), options);
    BOOST_TEST_CONTEXT(grid.text() << "\n" << found.text()) {
      BOOST_TEST(!found.all.empty());
      BOOST_TEST(found.largest() < 1e-6);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_product_with_a_bias) {
  check_on_grids<linear<dims<hidden>, dims<ffn>, on_grid, bias_use::with>, grid_stream>();
}
BOOST_AUTO_TEST_CASE(a_product_of_heads) {
  check_on_grids<linear<dims<heads, head_width>, dims<hidden>, on_grid>,
                 cut_tokens<heads, head_width>>();
}
// One head reads a kv head that another rank owns; on 3 x 3 a rank has heads and no kv head.
BOOST_AUTO_TEST_CASE(heads_with_fewer_kv_heads) {
  check_on_grids<projections<dims<hidden>, on_grid,
                             projection<"query", dims<heads, head_width>, bias_use::with>,
                             projection<"key", dims<kv_heads, head_width>, bias_use::with>,
                             projection<"value", dims<kv_heads, head_width>>>,
                 grid_stream>();
}
BOOST_AUTO_TEST_CASE(norms) {
  check_on_grids<layer_norm<hidden, on_grid>, grid_stream>();
  check_on_grids<rms_norm<hidden, on_grid>, grid_stream>();
}
BOOST_AUTO_TEST_CASE(rows_of_a_table) {
  check_on_grids<embedding<fp64, "table", vocabulary, hidden, on_grid>, words>(eleven);
  check_on_grids<learned_positions<"positions", hidden>, grid_stream>();
}
BOOST_AUTO_TEST_CASE(logits) {
  check_on_grids<table_projection<"head", vocabulary, hidden, on_grid>, grid_stream>();
}
BOOST_AUTO_TEST_CASE(a_tied_table_gets_both_gradients) {
  check_on_grids<chain<embedding<fp64, "table", vocabulary, hidden, on_grid>,
                       table_projection<"table", vocabulary, hidden, on_grid>>,
                 words>(eleven);
}
BOOST_AUTO_TEST_CASE(a_grid_of_two_by_three_is_refused) {
  using layer = linear<dims<hidden>, dims<ffn>, on_grid, bias_use::with>;
  BOOST_CHECK_EXCEPTION((gradient_check<layer, grid_stream>(grid_mesh({1, 2, 3}), uneven_sizes())),
                        tenon::error, [](const tenon::error& e) {
                          return std::string(e.what()).find("is 2 x 3; pieces of a row and") !=
                                 std::string::npos;
                        });
}
