// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "tenon/kernel/embedding.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/layer/assignment.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/parameter.hpp"

namespace tenon::inline v0 {

namespace detail {

// The placement in which a table [Rows, Columns] is used beside tokens, or beside activations in
// placement P: the assignment may cut its rows.
template <class P, class Rows, class Columns, class Assignment>
using table_placement = weight_placement<states_of_t<P>, dims<Columns>, dims<Rows>, Assignment>;

// The one declaration of a table, found by its name, so that it can be tied.
template <class Table, class Mesh>
std::shared_ptr<Table> declared_table(const layer_context<Mesh>& context, const std::string& name) {
  return context.shared.template get<Table>(name, [&] {
    return std::make_shared<Table>(
        context, parameter_declaration{name, parameter_role::matrix,
                                       initial_values::normal(context.sizes.deviation)});
  });
}

}  // namespace detail

/// Rows of a table [Rows, Columns] looked up by tokens: the product of a one-hot operand with its
/// table. Where an axis cuts the rows, the tokens are whole and the output is partial: each rank
/// gives the rows that it has, and zeros. `E` is the element of the output.
///
/// The parameter is named `Name`; another layer that declares the same name shares it.
template <element E, part_name Name, class Rows, class Columns, class Assignment = assignment<>>
struct embedding {
  template <class In>
  class bound : public without_transfers {
    static_assert(is_tensor<In> && is_constant<typename In::placement_type>,
                  "embedding: the input is not a constant tensor of tokens; mark its placement: "
                  "constant<placement<...>>");
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    using table_use = detail::table_placement<P, Rows, Columns, Assignment>;
    // The tokens as the one-hot operand that they stand for: cut rows are cut in it too.
    template <class S>
    struct one_hot_of;
    template <class... Ons>
    struct one_hot_of<placement<Ons...>> {
      template <class On>
      using state = std::conditional_t<
          is_sharded<typename On::held>, typename On::held,
          std::conditional_t<cuts<state_on_t<table_use, typename On::axis>, Rows>, sharded<Rows>,
                             state_on_t<table_use, typename On::axis>>>;
      using type = placement<on<typename Ons::axis, state<Ons>>...>;
    };
    using one_hot = typename one_hot_of<states_of_t<P>>::type;
    using out_dims = joined_dims_t<D, dims<Columns>>;
    using table_type = parameter<E, dims<Rows, Columns>, table_use>;

   public:
    using output_type = tensor<E, out_dims,
                               product_placement_t<joined_dims_t<D, dims<Rows>>, one_hot,
                                                   dims<Rows, Columns>, table_use, out_dims>>;
    using saved_type = In;

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : table_(detail::declared_table<table_type>(context, std::string(Name.view()))) {}

    std::pair<output_type, saved_type> forward(In tokens) {
      shape<out_dims> extents;
      for (std::size_t d = 0; d < D::size; ++d)
        extents.extents[d] = tokens.global_shape().extents[d];
      extents.extents[D::size] = table_->use().global_shape().template of<Columns>();
      output_type y(tokens.group(), extents);
      kernel::embedding(y.matrix(), std::as_const(tokens).values(), table_->use().matrix(),
                        table_->use().where().template of<Rows>().begin);
      return {std::move(y), std::move(tokens)};
    }
    no_gradient backward(gradient_of_value<output_type> gradient, saved_type tokens) {
      kernel::embedding_backward(table_->gradient().matrix(), std::as_const(tokens).values(),
                                 std::as_const(gradient).matrix(),
                                 table_->gradient().where().template of<Rows>().begin);
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

/// Learned positions: x + table[position], table [positions, Columns], whole where tokens are cut.
/// Packed documents begin at position 0 each.
template <part_name Name, class Columns>
struct learned_positions {
  template <class In>
  class bound : public without_transfers {
    static_assert(is_tensor<In>, "positions: the input is several tensors; give one");
    using P = typename In::placement_type;
    static_assert(std::is_same_v<typename In::dims_type, dims<batch, sequence, Columns>>,
                  "positions: the input's dims are not batch, sequence and the table's columns");
    static_assert(!any_partial<P>,
                  "positions: they would be added to a sum that is still to be done, once by each "
                  "rank; reduce first");
    using table_type = parameter<typename In::element_type, dims<positions, Columns>,
                                 partner_placement<P, dims<positions, Columns>>>;

   public:
    using output_type = In;
    struct saved_type {
      std::shared_ptr<const packed_documents> documents;
    };

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : table_(detail::declared_table<table_type>(context, std::string(Name.view()))),
          state_(&context.state),
          sizes_(&context.sizes) {}

    std::pair<output_type, saved_type> forward(In x) {
      if (!x.only_holder()) x = x.clone();
      require(x.global_shape().template of<sequence>() <=
                  table_->use().global_shape().template of<positions>(),
              "positions: sequences of ", x.global_shape().template of<sequence>(),
              " were given for a table of ", table_->use().global_shape().template of<positions>(),
              "; give shorter ones");
      kernel::add_positions(x.matrix(), table_->use().matrix(),
                            places_of_rows(x, sizes_->context, state_->documents.get()));
      return {std::move(x), saved_type{state_->documents}};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      kernel::add_positions_backward(
          table_->gradient().matrix(), std::as_const(gradient).matrix(),
          places_of_rows(gradient, sizes_->context, saved.documents.get()));
      return gradient;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      f(*table_);
    }

   private:
    std::shared_ptr<table_type> table_;
    const run_state* state_;
    const dim_sizes* sizes_;
  };
};

/// The product with a table's rows: y = x T^T, T [Rows, Columns]; with the name of an embedding's
/// table the two are tied: one parameter, whose gradient both add to.
template <part_name Name, class Rows, class Columns, class Assignment = assignment<>>
struct table_projection {
  template <class In>
  class bound : public without_transfers {
    static_assert(is_tensor<In>, "table_projection: the input is several tensors; give one");
    using E = typename In::element_type;
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    using kept = dims_without_t<D, dims<Columns>>;
    static_assert(std::is_same_v<joined_dims_t<kept, dims<Columns>>, D>,
                  "table_projection: the table's columns are not the last dim of the input");
    using table_use = detail::table_placement<P, Rows, Columns, Assignment>;
    using table_type = parameter<E, dims<Rows, Columns>, table_use>;
    using out_dims = joined_dims_t<kept, dims<Rows>>;

   public:
    using output_type =
        tensor<E, out_dims, product_placement_t<D, P, dims<Rows, Columns>, table_use, out_dims>>;
    using saved_type = In;

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : table_(detail::declared_table<table_type>(context, std::string(Name.view()))),
          state_(&context.state) {}

    std::pair<output_type, saved_type> forward(In x) {
      const auto& table = table_->use();
      shape<out_dims> extents;
      for (std::size_t d = 0; d + 1 < D::size; ++d)
        extents.extents[d] = x.global_shape().extents[d];
      extents.extents[D::size - 1] = table.global_shape().template of<Rows>();
      output_type y(x.group(), extents);
      kernel::product(y.matrix(), std::as_const(x).matrix(), kernel::orientation::as_stored,
                      table.matrix(), kernel::orientation::transposed);
      return {std::move(y), std::move(x)};
    }
    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type x) {
      detail::now_or_deferred(state_->deferred, [table = table_.get(), x, gradient] {
        kernel::product(table->gradient().matrix(), gradient.matrix(),
                        kernel::orientation::transposed, x.matrix(), kernel::orientation::as_stored,
                        kernel::output::accumulate);
      });
      gradient_of_value<In> dx(x.group(), gradient_layout(x.where()));
      kernel::product(dx.matrix(), std::as_const(gradient).matrix(), kernel::orientation::as_stored,
                      table_->use().matrix(), kernel::orientation::as_stored);
      return dx;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      f(*table_);
    }

   private:
    std::shared_ptr<table_type> table_;
    const run_state* state_;
  };
};

}  // namespace tenon::inline v0
