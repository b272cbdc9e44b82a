// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "tenon/layer/assignment.hpp"

namespace tenon::inline v0 {

/// The assignment of a square grid of ranks: activations have their columns cut on `Column` and
/// their rows on `Row`, weights [From, To] have From cut on `Row` and To on `Column`, so that
/// nothing is there twice. `Ds` are the dims that may be cut so. Layers that are given it send
/// pieces of both along the grid.
///
///   activations   Column 0   Column 1      weights   Column 0     Column 1
///   Row 0         b0, h0     b0, h1        Row 0     from0, to0   from0, to1
///   Row 1         b1, h0     b1, h1        Row 1     from1, to0   from1, to1
///
/// Source: Q. Xu and others, An efficient 2D method for training super-large deep learning models
/// (Optimus), 2021.
template <mesh_axis Row, mesh_axis Column, tensor_dim... Ds>
struct grid_assignment {};

namespace detail {

// The first of `Dims` that a grid may cut, or void.
template <class Column, class Dims, class... Ds>
using cut_by_grid = carried_dim<Column, assignment<carry<Column, Ds...>>, Dims>;

// The placement of a weight whose dim `OfRow` lies on the rows of a grid and `OfColumn` on its
// columns, beside an input placed by P: whole on the other axes, as the input is.
template <class P, class Row, class Column, class OfRow, class OfColumn>
struct find_grid_weight;
template <class... Ons, class Row, class Column, class OfRow, class OfColumn>
struct find_grid_weight<placement<Ons...>, Row, Column, OfRow, OfColumn> {
  template <class A, class S>
  using held =
      std::conditional_t<std::is_same_v<A, Row>, sharded<OfRow>,
                         std::conditional_t<std::is_same_v<A, Column>, sharded<OfColumn>,
                                            std::conditional_t<is_sharded<S>, replicated, S>>>;
  using type = placement<on<typename Ons::axis, held<typename Ons::axis, typename Ons::held>>...>;
};
template <class P, class Row, class Column, class OfRow, class OfColumn>
using grid_weight = typename find_grid_weight<P, Row, Column, OfRow, OfColumn>::type;

// An input [..., columns] whose last dims, among them the one that Column cuts, are `Last`.
template <class P, class Row, class Column, class Last>
inline constexpr bool lies_on_grid = [] {
  if constexpr (P::template names<Row> && P::template names<Column>) {
    using held = state_on_t<P, Column>;
    if constexpr (is_sharded<held>) return Last::template has<typename held::dim>;
  }
  return false;
}();

template <class Row, class Column, class Mesh>
void require_square(const Mesh& grid) {
  const int rows = grid.template extent<Row>();
  const int columns = grid.template extent<Column>();
  require(rows == columns, "the grid of ", Row::name, " and ", Column::name, " is ", rows, " x ",
          columns, "; pieces of a row and of a column meet in it, so give both one extent");
}

}  // namespace detail

}  // namespace tenon::inline v0
