// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/functions.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/parameter.hpp"

namespace tenon::inline v0 {

/// A function of one value with its slope: `value(v)` and `slope(v)`, in fp32 and in fp64.
template <class F>
concept differentiable = requires(fp32 v, fp64 w) {
  { F::value(v) } -> std::convertible_to<fp32>;
  { F::slope(v) } -> std::convertible_to<fp32>;
  { F::value(w) } -> std::convertible_to<fp64>;
  { F::slope(w) } -> std::convertible_to<fp64>;
};

namespace detail {

// The input of a layer that applies a function element by element.
template <class In>
struct elementwise_input {
  static_assert(is_tensor<In>,
                "pointwise: the input is several tensors; apply the function to each of them");
  static_assert(
      no_sum_to_be_done<typename In::placement_type>,
      "pointwise: a function that is not linear was given a sum that is still to be done; "
      "reduce it first: redistributed<axis, replicated> or redistributed<axis, "
      "sharded<dim>>");
};

template <class T>
auto flat(T& x) {
  return view_of(x.data(), std::min<std::int64_t>(x.elements(), 1), x.elements());
}

}  // namespace detail

/// y = f(x), element by element. `F` is a `differentiable` function.
template <class F>
struct pointwise {
  static_assert(differentiable<F>,
                "pointwise: the function has no value or no slope; give it static value(v) and "
                "slope(v)");
  template <class In>
  class bound : public without_parameters, public without_transfers, detail::elementwise_input<In> {
   public:
    using output_type = In;
    using saved_type = In;

    explicit bound(const layer_context<typename In::mesh_type>&) {}

    std::pair<output_type, saved_type> forward(In x) {
      In y(x.group(), x.where());
      kernel::run(kernel::read{detail::flat(std::as_const(x))} | kernel::value_of<F>{} |
                  kernel::write{detail::flat(y)});
      return {std::move(y), std::move(x)};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type x) {
      if (!gradient.only_holder()) gradient = gradient.clone();
      kernel::run(kernel::read{detail::flat(std::as_const(x))} | kernel::slope_of<F>{} |
                  kernel::multiply{kernel::read{detail::flat(std::as_const(gradient))}} |
                  kernel::write{detail::flat(gradient)});
      return gradient;
    }
  };
};

/// y = x + b, b with the dims `Dims`, which are the last dims of the input.
template <class Dims>
struct bias {
  template <class In>
  class bound : public without_transfers {
    static_assert(is_tensor<In>, "bias: the input is several tensors; add to them one by one");
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    static_assert(std::is_same_v<joined_dims_t<dims_without_t<D, Dims>, Dims>, D>,
                  "bias: its dims are not the last dims of the input; name those");
    static_assert(!any_partial<P>,
                  "bias: it would be added to a sum that is still to be done, once by each rank; "
                  "reduce first and add the bias after it");
    using bias_type = parameter<typename In::element_type, Dims, partner_placement<P, Dims>>;

   public:
    using output_type = In;
    struct saved_type {};

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : bias_(std::make_unique<bias_type>(
              context, parameter_declaration{context.name + ".bias", parameter_role::bias,
                                             initial_values::all(0)})) {}

    std::pair<output_type, saved_type> forward(In x) {
      if (!x.only_holder()) x = x.clone();
      const auto m = x.template matrix<Dims::size>();
      kernel::run(kernel::read{m} | kernel::add{kernel::per_column{bias_->use().values()}} |
                  kernel::write{m});
      return {std::move(x), saved_type{}};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type) {
      kernel::column_sum(bias_->gradient().values(),
                         std::as_const(gradient).template matrix<Dims::size>());
      return gradient;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      f(*bias_);
    }

   private:
    std::unique_ptr<bias_type> bias_;
  };
};

}  // namespace tenon::inline v0
