// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/layer/embedding.hpp"
#include "tenon/layer/grid_linear.hpp"
#include "tenon/memory/copy.hpp"

namespace tenon::inline v0 {

namespace detail {

// A table [Rows, Columns] on a grid, beside an input placed by P.
template <class P, class Rows, class Columns, class Row, class Column>
using grid_table = grid_weight<states_of_t<P>, Row, Column, Rows, Columns>;

}  // namespace detail

/// The lookup on a grid of ranks: the table's rows lie on the grid's rows, its columns on the
/// columns. Blocks of the table go to the ranks of their column in turn, and each rank takes from
/// them the rows that its tokens name; backward the gradients of a block are summed on its owner.
/// It is the product of the one-hot operand, of which every rank knows its rows.
template <element E, part_name Name, class Rows, class Columns, class Row, class Column,
          class... Ds>
struct embedding<E, Name, Rows, Columns, grid_assignment<Row, Column, Ds...>> {
  template <class In>
  class bound {
    static_assert(is_tensor<In> && is_constant<typename In::placement_type>,
                  "embedding: the input is not a constant tensor of tokens; mark its placement: "
                  "constant<placement<...>>");
    using W = wide<E>;
    using D = typename In::dims_type;
    using P = states_of_t<typename In::placement_type>;
    static_assert(std::is_same_v<state_on_t<P, Column>, invariant>,
                  "embedding: the tokens are not the same on the columns of the grid; make them "
                  "invariant there");
    using table_dims = dims<Rows, Columns>;
    using table_use = detail::grid_table<P, Rows, Columns, Row, Column>;
    using whole_table = with_state<table_use, Row, replicated>;
    using gradient_terms = with_state<gradient_placement<table_use>, Row, partial>;
    using out_dims = joined_dims_t<D, dims<Columns>>;
    using table_type = parameter<E, table_dims, table_use>;

   public:
    using output_type =
        tensor<E, out_dims,
               product_placement_t<joined_dims_t<D, dims<Rows>>, with_state<P, Column, replicated>,
                                   table_dims, whole_table, out_dims>>;
    using saved_type = In;
    using forward_transfers =
        detail::transfer_in_pieces<Row, sharded<Rows>, replicated, E, table_dims, table_use>;
    using backward_transfers =
        detail::transfer_in_pieces<Row, partial, sharded<Rows>, W, table_dims, gradient_terms>;

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : table_(detail::declared_table<table_type>(context, std::string(Name.view()))) {
      detail::require_square<Row, Column>(context.group.grid());
    }

    std::pair<output_type, saved_type> forward(In tokens) {
      const auto& table = table_->use();
      shape<out_dims> extents;
      for (std::size_t d = 0; d < D::size; ++d)
        extents.extents[d] = tokens.global_shape().extents[d];
      extents.extents[D::size] = table.global_shape().template of<Columns>();
      output_type y(tokens.group(), extents);
      const partition& pieces = table.where().template partition_on<Row>();
      const std::int64_t columns = table.template extent<Columns>();
      detail::passed_block<E> blocks(tokens.group().template on<Row>(), table.matrix(),
                                     pieces.of(0).size * columns);
      for (int i = 0; i < pieces.parts(); ++i) {
        const auto block =
            blocks.from(i, pieces.of(i).size, columns, Name.view(), call_site::here());
        kernel::embedding(y.matrix(), std::as_const(tokens).values(), block, pieces.of(i).begin,
                          i == 0 ? kernel::output::overwrite : kernel::output::accumulate);
      }
      return {std::move(y), std::move(tokens)};
    }

    no_gradient backward(gradient_of_value<output_type> gradient, saved_type tokens) {
      auto& sums = table_->gradient();
      const auto dy = std::as_const(gradient).matrix();
      const std::span<const std::int32_t> words = std::as_const(tokens).values();
      const partition& pieces = sums.where().template partition_on<Row>();
      auto& line = tokens.group().template on<Row>();
      if (line.size() == 1) {
        kernel::embedding_backward(sums.matrix(), words, dy);
        return {};
      }
      const std::int64_t columns = sums.template extent<Columns>();
      detail::summed_block<W> blocks(line, pieces.of(0).size * columns);
      for (int i = 0; i < pieces.parts(); ++i) {
        const auto terms = blocks.terms(pieces.of(i).size, columns);
        fill_bytes_with_zeros(terms.data, terms.size() * static_cast<std::int64_t>(sizeof(W)));
        kernel::embedding_backward(terms, words, dy, pieces.of(i).begin);
        blocks.sum_in_place(i, terms.size(), Name.view(), call_site::here());
        if (i == line.rank()) detail::grid_products::add(sums.matrix(), terms);
      }
      return {};
    }

    template <class F>
    void for_each_parameter(F&& f) {
      f(*table_);
    }

   private:
    std::shared_ptr<table_type> table_;
  };
};

/// The product with a table's rows on a grid of ranks: y = x T^T, with T as `embedding` has it.
/// Blocks of the table go along the columns of the grid; the sums over the ranks of a row of the
/// grid, which have the columns of x among them, are done block by block.
template <part_name Name, class Rows, class Columns, class Row, class Column, class... Ds>
struct table_projection<Name, Rows, Columns, grid_assignment<Row, Column, Ds...>> {
  template <class In>
  class bound {
    static_assert(is_tensor<In>, "table_projection: the input is several tensors; give one");
    using E = typename In::element_type;
    using W = wide<E>;
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    static_assert(
        detail::lies_on_grid<P, Row, Column, dims<Columns>>,
        "table_projection: the input does not lie on the grid; cut the table's columns on "
        "the axis of the grid's columns");
    using kept = dims_without_t<D, dims<Columns>>;
    static_assert(std::is_same_v<joined_dims_t<kept, dims<Columns>>, D>,
                  "table_projection: the table's columns are not the last dim of the input");
    using table_dims = dims<Rows, Columns>;
    using table_use = detail::grid_table<P, Rows, Columns, Row, Column>;
    using whole_table = with_state<table_use, Row, replicated>;
    using table_gradient = with_state<gradient_placement<table_use>, Row, partial>;
    using table_type = parameter<E, table_dims, table_use>;
    using out_dims = joined_dims_t<kept, dims<Rows>>;
    using terms = product_placement_t<D, P, table_dims, whole_table, out_dims>;
    using out_placement = with_state<terms, Column, sharded<Rows>>;
    using gather_table =
        detail::transfer_in_pieces<Row, sharded<Rows>, replicated, E, table_dims, table_use>;
    using gather_gradient = detail::transfer_in_pieces<Column, sharded<Rows>, replicated, E,
                                                       out_dims, gradient_placement<out_placement>>;

   public:
    using output_type = tensor<E, out_dims, out_placement>;
    using saved_type = In;
    using forward_transfers =
        joined_transfers<gather_table, detail::transfer_in_pieces<Column, partial, sharded<Rows>, E,
                                                                  out_dims, terms>>;
    using backward_transfers = joined_transfers<
        gather_gradient,
        detail::transfer_in_pieces<Row, partial, sharded<Rows>, W, table_dims, table_gradient>,
        gather_gradient, gather_table>;

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : table_(detail::declared_table<table_type>(context, std::string(Name.view()))),
          state_(&context.state) {
      const auto& grid = context.group.grid();
      detail::require_square<Row, Column>(grid);
      const int parts = grid.template extent<Row>();
      const auto rows = partition::balanced(context.sizes.template of<Rows>(), parts);
      for (int i = 0; i < parts; ++i) pieces_.push_back(rows.of(i).size);
    }

    std::pair<output_type, saved_type> forward(In x) {
      const auto& table = table_->use();
      shape<out_dims> extents;
      for (std::size_t d = 0; d + 1 < D::size; ++d)
        extents.extents[d] = x.global_shape().extents[d];
      extents.extents[D::size - 1] = table.global_shape().template of<Rows>();
      output_type y(x.group(), extents);
      grid_of(x).template ab_t<E>(y.matrix(), {{std::as_const(x).matrix(), table.matrix()}});
      return {std::move(y), std::move(x)};
    }

    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type x) {
      // Exchanges that are put off count as those of backward, too.
      detail::now_or_deferred(state_->deferred, [this, x, gradient] {
        const phase_scope inside(x.group().ledger(), "backward");
        grid_of(x).template at_b<E>(gradient.matrix(), {{table_->gradient().matrix(), x.matrix()}});
      });
      gradient_of_value<In> dx(x.group(), gradient_layout(x.where()));
      grid_of(x).template ab<E>(std::as_const(gradient).matrix(),
                                {{dx.matrix(), table_->use().matrix()}});
      return dx;
    }

    template <class F>
    void for_each_parameter(F&& f) {
      f(*table_);
    }

   private:
    // The pieces of the table's rows travel.
    detail::grid_products grid_of(const In& x) const {
      return {x.group().template on<Column>(), x.group().template on<Row>(), pieces_, Name.view(),
              call_site::here()};
    }

    std::shared_ptr<table_type> table_;
    const run_state* state_;
    std::vector<std::int64_t> pieces_;
  };
};

}  // namespace tenon::inline v0
