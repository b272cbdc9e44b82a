// SPDX-License-Identifier: Apache-2.0
// Products in pieces, beside a cut sequence: the same slopes as one after the other, the same
// values, and what was predicted is what is sent.
#include "tenon/layer/overlapped_products.hpp"

#include "checked.hpp"
#include "tenon/layer/prices.hpp"
#include "tenon/parallel/parameter_store.hpp"

namespace {

using rows = sharded<sequence>;
using enter = redistributed<axis::tensor, replicated>;
using leave = redistributed<axis::tensor, rows>;
using three = projections<dims<hidden>, cuts_of_weights,
                          projection<"query", dims<heads, head_width>, bias_use::with>,
                          projection<"key", dims<kv_heads, head_width>, bias_use::with>,
                          projection<"value", dims<kv_heads, head_width>>>;
using up = linear<dims<hidden>, dims<ffn>, cuts_of_weights, bias_use::with>;
using down = linear<dims<ffn>, dims<hidden>, cuts_of_weights>;
using there_and_back =
    chain<move_then_products<enter, up>, product_then_move<named<"down", down>, leave>>;

template <class L, class In>
void check_in_pieces() {
  for (const std::int64_t sequences : {1, 3}) {  // pieces follow one another, or lie apart
    for (const auto& extents : meshes) {
      const both_axes grid(extents);
      dim_sizes sizes = uneven_sizes();
      sizes.set<batch>(sequences);
      sizes.overlap_products = true;
      const gradient_report found =
          gradient_check<L, In>(grid, sizes, gradient_check_options{.elements = 4});
      BOOST_TEST_CONTEXT(grid.text() << "\n" << found.text()) {
        BOOST_TEST(!found.all.empty());
        BOOST_TEST(found.largest() < 1e-6);
      }
    }
  }
}

// Output, input gradient and weight gradients of one rank, one after the other.
template <class L, class E>
std::vector<double> values_of(ranks<both_axes>& group, std::int64_t sequences, bool overlap,
                              prices_on<both_axes>* prices) {
  using In = tenon::tensor<E, dims<batch, sequence, hidden>,
                           placement<on<axis::data, sharded<batch>>, on<axis::tensor, rows>>>;
  using layer_type = bound_to<L, In>;
  dim_sizes sizes = uneven_sizes();
  sizes.set<batch>(sequences);
  sizes.overlap_products = overlap;
  run_state state;
  shared_parameters shared;
  layer_type layer(layer_context<both_axes>{group, sizes, state, shared, "layer"});
  std::vector<any_parameter<wide<E>>*> parameters;
  layer.for_each_parameter([&](any_parameter<wide<E>>& p) {
    p.initialise(1);
    parameters.push_back(&p);
  });
  parameter_store<wide<E>> gradients(parameters, group.ledger());
  gradients.begin_step();
  In x(group, sizes.of(typename In::dims_type{}));
  fill_normal(x, random_stream(2, "x"), 1);
  gradient_of_value<output_of<L, In>> gradient;
  group.ledger().restart();
  auto [y, saved] = layer.forward(std::move(x));
  gradient = decltype(gradient)(group, gradient_layout(y.where()));
  fill_normal(gradient, random_stream(3, "gradient"), 1);
  const auto dx = layer.backward(std::move(gradient), std::move(saved));
  if (prices != nullptr) {
    prices->add(typename layer_type::forward_transfers{}, sizes, "other");
    prices->add(typename layer_type::backward_transfers{}, sizes, "other");
  }
  std::vector<double> all;
  const auto add = [&](const auto& values) {
    for (const auto v : values) all.push_back(static_cast<double>(v));
  };
  add(std::as_const(y).values());
  add(dx.values());
  for (auto* p : parameters) add(p->owned_gradient());
  return all;
}

template <class E>
void check_values(double bar) {
  for (const std::int64_t sequences : {1, 3}) {
    for (const auto& extents : meshes) {
      simulate(extents[0] * extents[1], [&](std::unique_ptr<transport> world) {
        const both_axes grid(extents, world->rank());
        ranks<both_axes> group(std::move(world), grid);
        const auto copied = [&] { return group.on<axis::tensor>().group().copied_bytes(); };
        const auto plain = values_of<there_and_back, E>(group, sequences, false, nullptr);
        prices_on<both_axes> prices(grid);
        const std::int64_t before = copied();
        const auto pieces = values_of<there_and_back, E>(group, sequences, true, &prices);
        double apart = plain.size() == pieces.size() ? 0 : 1;
        double scale = 0;
        for (std::size_t i = 0; i < std::min(plain.size(), pieces.size()); ++i) {
          apart = std::max(apart, std::abs(plain[i] - pieces[i]));
          scale = std::max(scale, std::abs(plain[i]));
        }
        const bool close = apart <= bar * scale;
        // Calls and bytes, by hand: four messages of every two ranks.
        const std::int64_t ranks = grid.extent<axis::tensor>();
        std::int64_t calls = 0;
        std::int64_t bytes = 0;
        for (const auto& [key, row] : group.ledger().rows()) {
          if (key.axis != "tensor" || row.calls == 0) continue;
          if (key.call != "send" && key.call != "receive") calls = -1000;
          if (key.call == "send") calls += row.calls;
          bytes += row.bytes;
        }
        std::int64_t predicted = 0;
        std::int64_t predicted_calls = 0;
        for (const auto& [key, row] : prices.rows()) {
          predicted += row.bytes;
          predicted_calls += row.calls;
        }
        const bool counted = calls == 4 * (ranks - 1) && predicted_calls == calls &&
                             bytes == predicted && copied() - before == bytes;
        require(close && counted, "rank ", group.rank(), " of ", grid.text(), ": apart ", apart,
                " of ", scale, "; ", calls, " calls, ", bytes, " bytes, predicted ", predicted,
                ", copied ", copied() - before);
      });
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gather_then_multiply) {
  check_in_pieces<move_then_products<enter, three>, stream<rows>>();
  check_in_pieces<move_then_products<enter, named<"up", up>>, stream<rows>>();
}
BOOST_AUTO_TEST_CASE(multiply_then_scatter) {
  check_in_pieces<product_then_move<down, leave>, tokens_of<sharded<ffn>, ffn>>();
}
BOOST_AUTO_TEST_CASE(whole_streams_are_a_chain) {
  using whole = stream<invariant>;
  static_assert(std::same_as<bound_to<move_then_products<enter, up>, whole>,
                             bound_to<chain<enter, up>, whole>>);
  check_in_pieces<move_then_products<enter, up>, whole>();
}
BOOST_AUTO_TEST_CASE(values_and_bytes) {
  check_values<fp64>(1e-14);
  check_values<fp32>(1e-5);
  check_values<bf16>(2e-2);
}
