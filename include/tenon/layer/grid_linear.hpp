// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/layer/grid_assignment.hpp"
#include "tenon/layer/grid_products.hpp"
#include "tenon/layer/linear.hpp"

namespace tenon::inline v0 {

namespace detail {

// The sizes of the pieces of the columns of x, or of the rows of a weight, on the ranks of an axis:
// `Last` are the dims that the columns, or rows, are made of.
template <class Axis, class Last, class D, class P>
std::vector<std::int64_t> grid_pieces(const layout<D, P>& where) {
  using cut = typename state_on_t<P, Axis>::dim;
  std::int64_t others = 1;
  []<class... Ls>(dims<Ls...>, const layout<D, P>& of, std::int64_t& product) {
    ((product *= std::is_same_v<Ls, cut> ? 1 : of.template extent<Ls>()), ...);
  }(Last{}, where, others);
  const partition& pieces = where.template partition_on<Axis>();
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < pieces.parts(); ++i) sizes.push_back(pieces.of(i).size * others);
  return sizes;
}

// The transfer of a move of a tensor in pieces.
template <class Axis, class From, class To, class E, class D, class P>
using transfer_in_pieces = transfers<transfer<in_pieces<move<Axis, From, To>>, E, D, P>>;

}  // namespace detail

/// Products on a grid of ranks (see `grid_assignment`): the product of a gathered input and a
/// gathered weight, each gathered in pieces as it is used; backward both gradients are scattered in
/// pieces. Nothing is partial, so that a bias may follow at once.
template <class From, class Row, class Column, class... Ds, class... Projections>
struct projections<From, grid_assignment<Row, Column, Ds...>, Projections...> {
  template <class In>
  class bound {
    static_assert(
        is_tensor<In>,
        "linear: the input is several tensors; give one, or take the results apart first");
    using E = typename In::element_type;
    using W = wide<E>;
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    using mesh_type = typename In::mesh_type;
    static_assert(
        detail::lies_on_grid<P, Row, Column, From>,
        "linear: the input does not lie on the grid; cut one of the dims to be contracted "
        "on the axis of its columns");
    using kept = dims_without_t<D, From>;
    static_assert(
        std::is_same_v<joined_dims_t<kept, From>, D>,
        "linear: the dims to be contracted are not the last dims of the input; order them "
        "so that they are");
    using cut_state = state_on_t<P, Column>;
    using cut = typename cut_state::dim;
    using whole_input = with_state<P, Column, replicated>;
    using input_gradient = with_state<gradient_placement<P>, Column, partial>;

    template <class Projection>
    struct branch {
      using To = typename Projection::dims_type;
      using to_cut = detail::cut_by_grid<Column, To, Ds...>;
      static_assert(!std::is_void_v<to_cut>,
                    "linear: the grid cuts none of the new dims; name one of them in its "
                    "assignment");
      using weight_dims = joined_dims_t<From, To>;
      using weight_use = detail::grid_weight<P, Row, Column, cut, to_cut>;
      using whole_weight = with_state<weight_use, Row, replicated>;
      using weight_gradient = with_state<gradient_placement<weight_use>, Row, partial>;
      using out_dims = joined_dims_t<kept, To>;
      using out_placement =
          product_placement_t<D, whole_input, weight_dims, whole_weight, out_dims>;
      using output = tensor<E, out_dims, out_placement>;
      using weight_type = parameter<E, weight_dims, weight_use>;
      using bias_type = parameter<E, To, partner_placement<out_placement, To>>;
      static constexpr bool biased = Projection::bias == bias_use::with;

      using forward =
          detail::transfer_in_pieces<Row, cut_state, replicated, E, weight_dims, weight_use>;
      using backward =
          detail::transfer_in_pieces<Row, partial, cut_state, W, weight_dims, weight_gradient>;

      std::unique_ptr<weight_type> weight;
      std::unique_ptr<bias_type> bias;
    };
    using branches = std::tuple<branch<Projections>...>;
    static constexpr bool single = sizeof...(Projections) == 1;
    using gather_input = detail::transfer_in_pieces<Column, cut_state, replicated, E, D, P>;
    using all_indices = std::make_index_sequence<sizeof...(Projections)>;

   public:
    using output_type =
        std::conditional_t<single, typename std::tuple_element_t<0, branches>::output,
                           std::tuple<typename branch<Projections>::output...>>;
    using saved_type = In;
    using forward_transfers =
        joined_transfers<gather_input, typename branch<Projections>::forward...>;
    using backward_transfers = joined_transfers<
        gather_input, typename branch<Projections>::backward...,
        typename branch<Projections>::forward...,
        detail::transfer_in_pieces<Column, partial, cut_state, E, D, input_gradient>>;

    explicit bound(const layer_context<mesh_type>& context)
        : branches_{build<Projections>(context)...}, name_(context.name), state_(&context.state) {
      detail::require_square<Row, Column>(context.group.grid());
    }

    std::pair<output_type, saved_type> forward(In x) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        output_type all{output_of_branch<I>(x)...};
        grid_of(x).template ab<E>(std::as_const(x).template matrix<From::size>(),
                                  {{matrix_of<I>(all), used<I>()}...});
        (add_bias<I>(matrix_of<I>(all)), ...);
        return std::pair<output_type, saved_type>(std::move(all), std::move(x));
      }
      (all_indices());
    }

    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type x) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        (add_bias_gradient<I>(read<I>(gradient)), ...);
        // Exchanges that are put off count as those of backward, too.
        detail::now_or_deferred(state_->deferred, [this, x, gradient] {
          const phase_scope inside(x.group().ledger(), "backward");
          grid_of(x).template at_b<E>(
              x.template matrix<From::size>(),
              {{std::get<I>(branches_)
                    .weight->gradient()
                    .template matrix<std::tuple_element_t<I, branches>::To::size>(),
                read<I>(gradient)}...});
        });
        gradient_of_value<In> dx(x.group(), gradient_layout(x.where()));
        grid_of(x).template ab_t<E>(dx.template matrix<From::size>(),
                                    {{read<I>(gradient), used<I>()}...});
        return dx;
      }
      (all_indices());
    }

    template <class F>
    void for_each_parameter(F&& f) {
      detail::visit_branches(branches_, f);
    }

   private:
    template <class Projection>
    static branch<Projection> build(const layer_context<mesh_type>& context) {
      using one = branch<Projection>;
      const auto mine = context.child(Projection::name);
      one made;
      made.weight = std::make_unique<typename one::weight_type>(
          mine, parameter_declaration{mine.name + ".weight", parameter_role::matrix,
                                      initial_values::normal(Projection::end == branch_end::yes
                                                                 ? context.sizes.branch_deviation
                                                                 : context.sizes.deviation)});
      if constexpr (one::biased) {
        made.bias = std::make_unique<typename one::bias_type>(
            mine, parameter_declaration{mine.name + ".bias", parameter_role::bias,
                                        initial_values::all(0)});
      }
      return made;
    }

    detail::grid_products grid_of(const In& x) const {
      return {x.group().template on<Column>(), x.group().template on<Row>(),
              detail::grid_pieces<Column, From>(x.where()), name_, call_site::here()};
    }

    template <std::size_t I>
    auto output_of_branch(const In& x) const {
      using one = std::tuple_element_t<I, branches>;
      const auto& weight = std::get<I>(branches_).weight->use();
      require(
          x.where().template partition_on<Column>() == weight.where().template partition_on<Row>(),
          "product ", name_, ": ", cut::name, " is cut at other places in the input than in ",
          "the weight; cut both in balanced pieces");
      return typename one::output(x.group(), detail::product_layout<typename one::out_dims>(
                                                 x.where().template moved<Column, replicated>(),
                                                 weight.where().template moved<Row, replicated>()));
    }
    template <std::size_t I>
    auto matrix_of(output_type& all) const {
      constexpr auto columns = std::tuple_element_t<I, branches>::To::size;
      if constexpr (single) {
        return all.template matrix<columns>();
      } else {
        return std::get<I>(all).template matrix<columns>();
      }
    }
    template <std::size_t I>
    static auto read(const gradient_of_value<output_type>& all) {
      constexpr auto columns = std::tuple_element_t<I, branches>::To::size;
      if constexpr (single) {
        return all.template matrix<columns>();
      } else {
        return std::get<I>(all).template matrix<columns>();
      }
    }
    template <std::size_t I>
    auto used() const {
      const auto& weight = std::get<I>(branches_).weight->use();
      return weight.template matrix<std::tuple_element_t<I, branches>::To::size>();
    }
    template <std::size_t I>
    void add_bias(matrix_view<E> y) const {
      if constexpr (std::tuple_element_t<I, branches>::biased) {
        const auto& bias = std::get<I>(branches_).bias->use();
        kernel::run(kernel::read{y} | kernel::add{kernel::per_column{bias.values()}} |
                    kernel::write{y});
      }
    }
    template <std::size_t I>
    void add_bias_gradient(matrix_view<const E> dy) {
      if constexpr (std::tuple_element_t<I, branches>::biased) {
        kernel::column_sum(std::get<I>(branches_).bias->gradient().values(), dy);
      }
    }

    branches branches_;
    std::string name_;
    const run_state* state_;
  };
};

}  // namespace tenon::inline v0
