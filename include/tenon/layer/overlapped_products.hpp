// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/kernel/overlap/exchange.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/placement/pieces_traffic.hpp"

namespace tenon::inline v0 {

namespace detail {

// The move of a list of one transfer.
template <class List>
struct only_move {
  using type = nothing;
};
template <class T>
struct only_move<transfers<T>> {
  using type = typename T::move_type;
};
// What is gathered forward and scattered backward, or the other way round: an axis and a dim.
template <class Forward, class Backward>
struct piecewise {
  static constexpr bool gathers = false;
  static constexpr bool scatters = false;
};
template <class A, class D>
struct piecewise<all_gather<A, D>, reduce_scatter<A, D>> {
  static constexpr bool gathers = true;
  static constexpr bool scatters = false;
  using axis = A;
  using dim = D;
};
template <class A, class D>
struct piecewise<reduce_scatter<A, D>, all_gather<A, D>> {
  static constexpr bool gathers = false;
  static constexpr bool scatters = true;
  using axis = A;
  using dim = D;
};
template <class Mover>
using piecewise_of = piecewise<typename only_move<typename Mover::forward_transfers>::type,
                               typename only_move<typename Mover::backward_transfers>::type>;

template <class Bound>
concept products_by_rows = requires {
  typename Bound::contracted;
  Bound::results;
};

// The rows of a tensor laid out so, as pieces of `Dim`; its last `Columns` dims are columns.
template <class Dim, std::size_t Columns, class D, class P>
kernel::row_pieces row_pieces_of(const layout<D, P>& where, partition cut) {
  constexpr std::size_t dim = D::template position<Dim>;
  static_assert(dim + Columns < D::size,
                "overlapped products: the dim that is cut is contracted; cut another");
  kernel::row_pieces rows{1, 1, std::move(cut)};
  for (std::size_t d = 0; d + Columns < D::size; ++d) {
    if (d != dim) (d < dim ? rows.outer : rows.inner) *= where.regions()[d].size;
  }
  return rows;
}

template <class F, std::size_t... I>
void for_each_index(F&& f, std::index_sequence<I...>) {
  (f(std::integral_constant<std::size_t, I>{}), ...);
}

// Calls f(rows): rows of a piece, in the whole or, where they do not follow one another there, in
// memory beside it, taken from the whole before or put into it after.
template <class E, class F>
void with_rows(const kernel::row_pieces& rows, int piece, matrix_view<const E> whole,
               buffer<E>& beside, F&& f) {
  if (rows.follow_one_another()) return f(rows.of(whole, piece));
  const auto taken = kernel::detail::matrix_in(beside, 0, rows.rows_of(piece), whole.columns);
  rows.take(taken, whole, piece);
  f(matrix_view<const E>(taken));
}
template <class E, class F>
void into_rows(const kernel::row_pieces& rows, int piece, matrix_view<E> whole, buffer<E>& beside,
               F&& f) {
  if (rows.follow_one_another()) return f(rows.of(whole, piece));
  const auto made = kernel::detail::matrix_in(beside, 0, rows.rows_of(piece), whole.columns);
  f(made);
  rows.put(whole, piece, made);
}
// The memory beside a whole of so many columns.
template <class E>
buffer<E> beside_of(const kernel::row_pieces& rows, std::int64_t columns) {
  return buffer<E>(rows.follow_one_another() ? 0 : rows.most_rows() * columns);
}

// The move in and the products, in pieces or one after the other.
template <class Move, class Products, class In>
class gathered_products {
  using mover = bound_to<Move, In>;
  using whole_type = typename mover::output_type;
  using products = bound_to<Products, whole_type>;
  using axis = typename piecewise_of<mover>::axis;
  using dim = typename piecewise_of<mover>::dim;
  using E = typename In::element_type;
  static constexpr std::size_t columns = products::contracted::size;
  using each_result = std::make_index_sequence<products::results>;

 public:
  using output_type = typename products::output_type;
  using saved_type = std::pair<typename mover::saved_type, typename products::saved_type>;
  using forward_transfers = list_in_pieces<typename mover::forward_transfers>;
  using backward_transfers = list_in_pieces<typename mover::backward_transfers>;

  explicit gathered_products(const layer_context<typename In::mesh_type>& context)
      : move_(context), products_(context), sizes_(&context.sizes), name_(context.name) {}

  std::pair<output_type, saved_type> forward(In x) {
    auto& line = x.group().template on<axis>();
    if (!sizes_->overlap_products || line.size() == 1) {
      auto [whole, cut] = move_.forward(std::move(x));
      auto [y, kept] = products_.forward(std::move(whole));
      return {std::move(y), {std::move(cut), std::move(kept)}};
    }
    typename mover::saved_type cut;
    if (x.where().template is_custom<axis>()) cut.cut = x.where().template partition_on<axis>();
    require_owned_once(x.where().template partition_on<axis>(), axis::name);
    whole_type whole(x.group(), x.where().template moved<axis, replicated>());
    const auto rows =
        row_pieces_of<dim, columns>(whole.where(), x.where().template partition_on<axis>());
    output_type y = empty_results(whole);
    buffer<E> beside = beside_of<E>(rows, most_columns(y));
    kernel::gather_in_pieces(
        line, rows, std::as_const(x).template matrix<columns>(), whole.template matrix<columns>(),
        [&](int piece, matrix_view<const E> from) {
          for_each_result(y, [&](auto at, auto& result) {
            constexpr std::size_t i = at;
            into_rows(rows, piece, result.template matrix<products::template new_dims<i>>(), beside,
                      [&](matrix_view<E> to) { products_.template multiply_rows<i>(to, from); });
          });
        },
        name_);
    return {std::move(y), {std::move(cut), std::move(whole)}};
  }

  gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
    auto& cut = saved.first;
    auto& x = saved.second;
    auto& line = x.group().template on<axis>();
    if (!sizes_->overlap_products || line.size() == 1) {
      return move_.backward(products_.backward(std::move(gradient), std::move(x)), std::move(cut));
    }
    gradient_of_value<In> dx(x.group(),
                             layout_after<axis, sharded<dim>>(gradient_layout(x.where()),
                                                              cut.cut ? &*cut.cut : nullptr));
    const auto rows =
        row_pieces_of<dim, columns>(x.where(), dx.where().template partition_on<axis>());
    buffer<E> beside = beside_of<E>(rows, most_columns(gradient));
    kernel::scatter_in_pieces(
        line, rows, dx.template matrix<columns>(),
        [&](int piece, matrix_view<E> to) {
          for_each_result(std::as_const(gradient), [&](auto at, const auto& dy) {
            constexpr std::size_t i = at;
            with_rows(rows, piece, dy.template matrix<products::template new_dims<i>>(), beside,
                      [&](matrix_view<const E> from) {
                        products_.template input_gradient_of_rows<i>(to, from);
                      });
          });
        },
        [&] {
          for_each_result(std::as_const(gradient), [&](auto at, const auto& dy) {
            constexpr std::size_t i = at;
            products_.template add_weight_gradient<i>(dy, x);
          });
        },
        name_);
    return dx;
  }
  template <class F>
  void for_each_parameter(F&& f) {
    products_.for_each_parameter(f);
  }

 private:
  output_type empty_results(const whole_type& x) {
    if constexpr (products::results == 1) {
      return products_.template empty_result<0>(x);
    } else {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return output_type{products_.template empty_result<I>(x)...};
      }
      (each_result{});
    }
  }
  template <class Results, class F>
  static void for_each_result(Results& all, F&& f) {
    if constexpr (products::results == 1) {
      f(std::integral_constant<std::size_t, 0>{}, all);
    } else {
      for_each_index([&](auto at) { f(at, std::get<decltype(at)::value>(all)); }, each_result{});
    }
  }
  template <class Results>
  static std::int64_t most_columns(const Results& all) {
    std::int64_t most = 0;
    for_each_result(all, [&](auto at, const auto& one) {
      constexpr std::size_t i = at;
      most = std::max(most, one.template matrix<products::template new_dims<i>>().columns);
    });
    return most;
  }

  mover move_;
  products products_;
  const dim_sizes* sizes_;
  std::string name_;
};

// The product and the move out, in pieces or one after the other.
template <class Product, class Move, class In>
class scattered_product {
  using product = bound_to<Product, In>;
  using whole_type = typename product::output_type;
  using mover = bound_to<Move, whole_type>;
  using axis = typename piecewise_of<mover>::axis;
  using dim = typename piecewise_of<mover>::dim;
  using E = typename In::element_type;
  static constexpr std::size_t columns = product::template new_dims<0>;
  static constexpr std::size_t depth = product::contracted::size;

 public:
  using output_type = typename mover::output_type;
  using saved_type = std::pair<typename product::saved_type, typename mover::saved_type>;
  using forward_transfers = list_in_pieces<typename mover::forward_transfers>;
  using backward_transfers = list_in_pieces<typename mover::backward_transfers>;

  explicit scattered_product(const layer_context<typename In::mesh_type>& context)
      : product_(context), move_(context), sizes_(&context.sizes), name_(context.name) {}

  std::pair<output_type, saved_type> forward(In x) {
    auto& line = x.group().template on<axis>();
    if (!sizes_->overlap_products || line.size() == 1) {
      auto [whole, kept] = product_.forward(std::move(x));
      auto [y, cut] = move_.forward(std::move(whole));
      return {std::move(y), {std::move(kept), std::move(cut)}};
    }
    output_type y(x.group(),
                  layout_after<axis, sharded<dim>>(product_.template result_layout<0>(x), nullptr));
    const auto rows = row_pieces_of<dim, depth>(x.where(), y.where().template partition_on<axis>());
    const auto from = std::as_const(x).template matrix<depth>();
    buffer<E> beside = beside_of<E>(rows, from.columns);
    kernel::scatter_in_pieces(
        line, rows, y.template matrix<columns>(),
        [&](int piece, matrix_view<E> to) {
          with_rows(rows, piece, from, beside, [&](matrix_view<const E> part) {
            product_.template multiply_rows<0>(to, part);
          });
        },
        [] {}, name_);
    return {std::move(y), {std::move(x), {}}};
  }

  gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
    auto& [x, cut] = saved;
    auto& line = x.group().template on<axis>();
    if (!sizes_->overlap_products || line.size() == 1) {
      return product_.backward(move_.backward(std::move(gradient), std::move(cut)), std::move(x));
    }
    gradient_of_value<whole_type> dy(x.group(),
                                     gradient.where().template moved<axis, replicated>());
    gradient_of_value<In> dx(x.group(), gradient_layout(x.where()));
    const auto rows =
        row_pieces_of<dim, depth>(x.where(), gradient.where().template partition_on<axis>());
    const auto into = dx.template matrix<depth>();
    buffer<E> beside = beside_of<E>(rows, into.columns);
    kernel::gather_in_pieces(
        line, rows, std::as_const(gradient).template matrix<columns>(),
        dy.template matrix<columns>(),
        [&](int piece, matrix_view<const E> from) {
          into_rows(rows, piece, into, beside, [&](matrix_view<E> to) {
            product_.template input_gradient_of_rows<0>(to, from);
          });
        },
        name_);
    product_.template add_weight_gradient<0>(dy, x);
    return dx;
  }
  template <class F>
  void for_each_parameter(F&& f) {
    product_.for_each_parameter(f);
  }

 private:
  product product_;
  mover move_;
  const dim_sizes* sizes_;
  std::string name_;
};

template <class Move, class Products, class In>
struct find_move_then_products {
  using type = bound_to<chain<Move, Products>, In>;
};
template <class Move, class Products, class In>
requires(is_tensor<In>&& piecewise_of<bound_to<Move, In>>::gathers&& products_by_rows<bound_to<
             Products, output_of<Move, In>>>) struct find_move_then_products<Move, Products, In> {
  using type = gathered_products<Move, Products, In>;
};

template <class Product, class Move, class In>
struct find_product_then_move {
  using type = bound_to<chain<Product, Move>, In>;
};
template <class Product, class Move, class In>
requires(
    is_tensor<In>&& products_by_rows<bound_to<Product, In>>&& is_tensor<output_of<Product, In>>&&
        piecewise_of<bound_to<Move, output_of<Product, In>>>::
            scatters) struct find_product_then_move<Product, Move, In> {
  using type = scattered_product<Product, Move, In>;
};

}  // namespace detail

/// A move and the products of what it gives: `chain<Move, Products>`. Where the move gathers a cut
/// dim, and its backward scatters it, the two overlap when `dim_sizes::overlap_products` says so:
/// the own piece is multiplied while the others come; backward the pieces of the gradient leave
/// while the next are made, and the weights' gradients are made while the last come. The same is
/// sent, as messages; sums are done in the order of the ranks and rounded once.
template <class Move, class Products>
struct move_then_products {
  template <class In>
  using bound = typename detail::find_move_then_products<Move, Products, In>::type;
};

/// A product and the move of what it gives: `chain<Product, Move>`, the mirror of
/// `move_then_products` where the move scatters a sum.
template <class Product, class Move>
struct product_then_move {
  template <class In>
  using bound = typename detail::find_product_then_move<Product, Move, In>::type;
};

}  // namespace tenon::inline v0
