// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/layer/assignment.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/parameter.hpp"

namespace tenon::inline v0 {

/// Whether a product adds a bias.
enum class bias_use : bool { without, with };

/// Where a product stands: what a residual branch ends with starts smaller, so that the sum of all
/// branches starts near the size of one.
/// Source: A. Radford and others, Language models are unsupervised multitask learners, 2019.
enum class branch_end : bool { no, yes };

/// One result of `projections`: its part of the name, its new dims, its bias.
template <part_name Name, class To, bias_use Bias = bias_use::without,
          branch_end End = branch_end::no>
struct projection {
  using dims_type = To;
  static constexpr std::string_view name = Name.view();
  static constexpr bias_use bias = Bias;
  static constexpr branch_end end = End;
};

namespace detail {

// The layout of a product: each axis cuts what it cut in the operand that has the dim.
template <class Out, class DA, class PA, class DB, class PB>
auto product_layout(const layout<DA, PA>& a, const layout<DB, PB>& b) {
  using placed = product_placement_t<DA, PA, DB, PB, Out>;
  shape<Out> extents;
  []<class... Os>(dims<Os...>, shape<Out>& to, const auto& from_a, const auto& from_b) {
    const auto extent = [&]<class O>(std::type_identity<O>) {
      if constexpr (DA::template has<O>) {
        return from_a.template of<O>();
      } else {
        return from_b.template of<O>();
      }
    };
    std::size_t i = 0;
    ((to.extents[i++] = extent(std::type_identity<Os>{})), ...);
  }(Out{}, extents, a.global(), b.global());
  layout<Out, placed> where(extents, a.grid());
  for_each_axis(std::type_identity<typename PA::mesh_type>{}, [&]<class A>(A) {
    if constexpr (is_sharded<state_on_t<placed, A>>) {
      if constexpr (is_sharded<state_on_t<PA, A>>) {
        if (a.template is_custom<A>()) where = where.template with<A>(a.template partition_on<A>());
      } else if constexpr (is_sharded<state_on_t<PB, A>>) {
        if (b.template is_custom<A>()) where = where.template with<A>(b.template partition_on<A>());
      }
    }
  });
  return where;
}

// The weight of each projection, and its bias where there is one.
template <class Branches, class F>
void visit_branches(Branches& branches, F& f) {
  const auto visit = [&](auto& one) {
    f(*one.weight);
    if (one.bias != nullptr) f(*one.bias);
  };
  std::apply([&](auto&... all) { (visit(all), ...); }, branches);
}

// Where both operands are cut along the contracted dim, their pieces must be the same.
template <class DA, class PA, class DB, class PB>
void require_same_cuts(const layout<DA, PA>& a, const layout<DB, PB>& b, std::string_view name) {
  for_each_axis(std::type_identity<typename PA::mesh_type>{}, [&]<class A>(A) {
    if constexpr (is_sharded<state_on_t<PA, A>> &&
                  std::is_same_v<state_on_t<PA, A>, state_on_t<PB, A>>) {
      require(a.template partition_on<A>() == b.template partition_on<A>(), "product ", name,
              ": the operands are cut at different places along ", state_on_t<PA, A>::dim::name,
              " on axis ", A::name, "; cut both alike");
    }
  });
}

}  // namespace detail

/// Products of one input with several weights: for each result y = x W (+ b), W with the dims
/// `From` (the last dims of the input, contracted) and the result's new dims. `Assignment` says
/// which new dims an axis cuts. With one nameless projection the output is a tensor, else a tuple.
///
/// Column-parallel (a new dim is cut): the input is replicated on the axis, and so its gradient is
/// partial. Row-parallel (a contracted dim is cut): the output is partial, and takes no bias.
template <class From, class Assignment, class... Projections>
struct projections {
  template <class In>
  class bound {
    static_assert(
        is_tensor<In>,
        "linear: the input is several tensors; give one, or take the results apart first");
    using E = typename In::element_type;
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    using mesh_type = typename In::mesh_type;
    static_assert(
        dims_among<From, D>,
        "linear: the input does not have the dims to be contracted; name dims that it has");
    using kept = dims_without_t<D, From>;
    static_assert(
        std::is_same_v<joined_dims_t<kept, From>, D>,
        "linear: the dims to be contracted are not the last dims of the input; order them "
        "so that they are");

    // The type of a bias that is not there: never built.
    using no_bias_placement = owner_placement<partner_placement<P, dims<>>>;

    // Everything that one projection owns and needs.
    template <class Projection>
    struct branch {
      using To = typename Projection::dims_type;
      using weight_dims = joined_dims_t<From, To>;
      using weight_use = weight_placement<P, From, To, Assignment>;
      using out_dims = joined_dims_t<kept, To>;
      using out_placement = product_placement_t<D, P, weight_dims, weight_use, out_dims>;
      using output = tensor<E, out_dims, out_placement>;
      using bias_use_placement = partner_placement<out_placement, To>;
      static constexpr bool biased = Projection::bias == bias_use::with;
      static_assert(!biased || !any_partial<out_placement>,
                    "linear: a bias would be added to a sum that is still to be done, once by each "
                    "rank; reduce first and add the bias after it");
      using weight_type = parameter<E, weight_dims, weight_use>;
      using bias_type = parameter<E, To,
                                  std::conditional_t<biased && !any_partial<out_placement>,
                                                     bias_use_placement, no_bias_placement>>;

      std::unique_ptr<weight_type> weight;
      std::unique_ptr<bias_type> bias;
    };
    using branches = std::tuple<branch<Projections>...>;
    static constexpr bool single = sizeof...(Projections) == 1;

   public:
    using output_type =
        std::conditional_t<single, typename std::tuple_element_t<0, branches>::output,
                           std::tuple<typename branch<Projections>::output...>>;
    using saved_type = In;
    using forward_transfers = transfers<>;
    using backward_transfers = transfers<>;

    explicit bound(const layer_context<mesh_type>& context)
        : branches_{build<Projections>(context)...}, state_(&context.state) {}

    std::pair<output_type, saved_type> forward(In x) {
      if constexpr (single) {
        auto y = multiply<0>(x);
        return {std::move(y), std::move(x)};
      } else {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          output_type all{multiply<I>(x)...};
          return std::pair<output_type, saved_type>(std::move(all), std::move(x));
        }
        (std::make_index_sequence<sizeof...(Projections)>());
      }
    }

    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type x) {
      gradient_of_value<In> dx(x.group(), gradient_layout(x.where()));
      if constexpr (single) {
        multiply_backward<0>(gradient, x, dx);
      } else {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
          (multiply_backward<I>(std::get<I>(gradient), x, dx), ...);
        }
        (std::make_index_sequence<sizeof...(Projections)>());
      }
      return dx;
    }

    template <class F>
    void for_each_parameter(F&& f) {
      detail::visit_branches(branches_, f);
    }

    // The parts of forward and backward, for layers that do them by pieces of rows.

    static constexpr std::size_t results = sizeof...(Projections);
    using contracted = From;
    /// How many dims of result I are the columns of its matrix.
    template <std::size_t I>
    static constexpr std::size_t new_dims = std::tuple_element_t<I, branches>::To::size;

    /// Result I of such an input, its values not set.
    template <std::size_t I>
    auto empty_result(const In& x) {
      using one = std::tuple_element_t<I, branches>;
      return typename one::output(x.group(), result_layout<I>(x));
    }
    template <std::size_t I>
    auto result_layout(const In& x) {
      using one = std::tuple_element_t<I, branches>;
      const auto& weight = *std::get<I>(branches_).weight;
      detail::require_same_cuts(x.where(), weight.use().where(), weight.declaration().name);
      return detail::product_layout<typename one::out_dims>(x.where(), weight.use().where());
    }
    /// Rows of result I from the same rows of the input.
    template <std::size_t I>
    void multiply_rows(matrix_view<E> y, matrix_view<const E> x) {
      using one = std::tuple_element_t<I, branches>;
      auto& own = std::get<I>(branches_);
      kernel::product(y, x, kernel::orientation::as_stored,
                      own.weight->use().template matrix<one::To::size>(),
                      kernel::orientation::as_stored);
      if constexpr (one::biased) {
        kernel::run(kernel::read{y} | kernel::add{kernel::per_column{own.bias->use().values()}} |
                    kernel::write{y});
      }
    }
    /// Rows of the input's gradient from the same rows of that of result I: of result 0 alone, the
    /// others add to it.
    template <std::size_t I>
    void input_gradient_of_rows(matrix_view<E> dx, matrix_view<const E> dy) {
      using one = std::tuple_element_t<I, branches>;
      kernel::product(dx, dy, kernel::orientation::as_stored,
                      std::get<I>(branches_).weight->use().template matrix<one::To::size>(),
                      kernel::orientation::transposed,
                      I == 0 ? kernel::output::overwrite : kernel::output::accumulate);
    }
    /// Adds to the gradients of weight and bias I, now or when the run asks for it.
    template <std::size_t I, class G>
    void add_weight_gradient(const G& gradient, const In& x) {
      using one = std::tuple_element_t<I, branches>;
      auto& own = std::get<I>(branches_);
      detail::now_or_deferred(state_->deferred, [weight = own.weight.get(), x, gradient] {
        kernel::product(weight->gradient().template matrix<one::To::size>(),
                        x.template matrix<From::size>(), kernel::orientation::transposed,
                        gradient.template matrix<one::To::size>(), kernel::orientation::as_stored,
                        kernel::output::accumulate);
      });
      if constexpr (one::biased) {
        kernel::column_sum(own.bias->gradient().values(),
                           gradient.template matrix<one::To::size>());
      }
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

    template <std::size_t I>
    auto multiply(const In& x) {
      auto y = empty_result<I>(x);
      multiply_rows<I>(y.template matrix<new_dims<I>>(), x.template matrix<From::size>());
      return y;
    }

    template <std::size_t I, class G>
    void multiply_backward(const G& gradient, const In& x, gradient_of_value<In>& dx) {
      add_weight_gradient<I>(gradient, x);
      input_gradient_of_rows<I>(dx.template matrix<From::size>(),
                                gradient.template matrix<new_dims<I>>());
    }

    branches branches_;
    const run_state* state_;
  };
};

/// One product: y = x W (+ b).
template <class From, class To, class Assignment = assignment<>, bias_use Bias = bias_use::without,
          branch_end End = branch_end::no>
using linear = projections<From, Assignment, projection<"", To, Bias, End>>;

/// The product whose new dim is cut along `Axis`.
template <tensor_dim From, tensor_dim To, mesh_axis Axis>
using column_parallel = linear<dims<From>, dims<To>, assignment<carry<Axis, To>>>;

/// The product whose contracted dim is cut along `Axis`: its output is partial there.
template <tensor_dim From, tensor_dim To, mesh_axis Axis>
using row_parallel = linear<dims<From>, dims<To>, assignment<carry<Axis, From>>>;

}  // namespace tenon::inline v0
