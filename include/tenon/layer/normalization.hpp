// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "tenon/kernel/rows/layer_norm.hpp"
#include "tenon/kernel/rows/rms_norm.hpp"
#include "tenon/kernel/rows/softmax.hpp"
#include "tenon/layer/assignment.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/parameter.hpp"

namespace tenon::inline v0 {

namespace detail {

// What both norms ask of their input, and the parameter type of a gain or bias beside it.
template <class D, class In>
struct normalized_input {
  static_assert(is_tensor<In>, "norm: the input is several tensors; norm them one by one");
  using dims_type = typename In::dims_type;
  using placement_type = typename In::placement_type;
  static_assert(dims_type::template has<D> &&
                    dims_type::template position<D> + 1 == dims_type::size,
                "norm: the dim to be normalised is not the last dim of the input");
  static_assert(!any_partial<placement_type>,
                "norm: a function that is not linear was given a sum that is still to be done; "
                "reduce it first: redistributed<axis, invariant> or redistributed<axis, "
                "sharded<dim>>");
  static_assert(!any_cut_of<placement_type, D>,
                "norm: the dim to be normalised is cut by an axis, and a norm reads the whole of "
                "it; move that axis to another dim first");
  using weight_type =
      parameter<typename In::element_type, dims<D>, partner_placement<placement_type, dims<D>>>;
};

}  // namespace detail

/// Softmax over the last dim `D`, which must be whole on every rank.
template <class D>
struct softmax {
  template <class In>
  class bound : public without_parameters, public without_transfers {
    static_assert(is_tensor<In>, "softmax: the input is several tensors; give one");
    using dims_type = typename In::dims_type;
    using placement_type = typename In::placement_type;
    static_assert(dims_type::template has<D> &&
                      dims_type::template position<D> + 1 == dims_type::size,
                  "softmax: the dim to be normalised is not the last dim of the input");
    static_assert(
        !any_partial<placement_type>,
        "softmax: a function that is not linear was given a sum that is still to be done; "
        "reduce it first");
    static_assert(!any_cut_of<placement_type, D>,
                  "softmax: the dim to be normalised is cut by an axis, and a softmax reads the "
                  "whole of it; move that axis to another dim first, or use the form that declares "
                  "the moves of its statistics: cross_entropy");

   public:
    using output_type = In;
    using saved_type = In;

    explicit bound(const layer_context<typename In::mesh_type>&) {}

    std::pair<output_type, saved_type> forward(In x) {
      In y(x.group(), x.where());
      kernel::softmax(y.matrix(), std::as_const(x).matrix());
      return {y, y};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type y) {
      if (!gradient.only_holder()) gradient = gradient.clone();
      kernel::softmax_backward(gradient.matrix(), std::as_const(gradient).matrix(),
                               std::as_const(y).matrix());
      return gradient;
    }
  };
};

/// Layer normalisation over the last dim `D`, with gain and bias. The statistics and their sums are
/// in the wide element. With an assignment that cuts `D` (`grid_assignment`) it is another form.
/// Source: J. L. Ba, J. R. Kiros, G. E. Hinton, Layer normalization, 2016.
template <class D, class Assignment = assignment<>>
struct layer_norm {
  template <class In>
  class bound : public without_transfers {
    using weight_type = typename detail::normalized_input<D, In>::weight_type;
    using W = wide<typename In::element_type>;

   public:
    using output_type = In;
    struct saved_type {
      In x;
      buffer<W> mean;               // [rows]
      buffer<W> inverse_deviation;  // [rows]
    };

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : gain_(std::make_unique<weight_type>(
              context, parameter_declaration{context.name + ".gain", parameter_role::gain,
                                             initial_values::all(1)})),
          bias_(std::make_unique<weight_type>(
              context, parameter_declaration{context.name + ".bias", parameter_role::bias,
                                             initial_values::all(0)})) {}

    std::pair<output_type, saved_type> forward(In x) {
      In y(x.group(), x.where());
      const auto rows = x.matrix().rows;
      saved_type saved{std::move(x), buffer<W>(rows), buffer<W>(rows)};
      kernel::layer_norm(y.matrix(), saved.mean.span(), saved.inverse_deviation.span(),
                         std::as_const(saved.x).matrix(), gain_->use().values(),
                         bias_->use().values());
      return {std::move(y), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      if (!gradient.only_holder()) gradient = gradient.clone();
      kernel::layer_norm_backward(gradient.matrix(), gain_->gradient().values(),
                                  bias_->gradient().values(), std::as_const(gradient).matrix(),
                                  std::as_const(saved.x).matrix(), gain_->use().values(),
                                  saved.mean.span(), saved.inverse_deviation.span());
      return gradient;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      f(*gain_);
      f(*bias_);
    }

   private:
    std::unique_ptr<weight_type> gain_;
    std::unique_ptr<weight_type> bias_;
  };
};

/// Root-mean-square normalisation over the last dim `D`, with a gain; see `layer_norm`.
/// Source: B. Zhang, R. Sennrich, Root mean square layer normalization, 2019.
template <class D, class Assignment = assignment<>>
struct rms_norm {
  template <class In>
  class bound : public without_transfers {
    using weight_type = typename detail::normalized_input<D, In>::weight_type;
    using W = wide<typename In::element_type>;

   public:
    using output_type = In;
    struct saved_type {
      In x;
      buffer<W> inverse_root;  // [rows]
    };

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : gain_(std::make_unique<weight_type>(
              context, parameter_declaration{context.name + ".gain", parameter_role::gain,
                                             initial_values::all(1)})) {}

    std::pair<output_type, saved_type> forward(In x) {
      In y(x.group(), x.where());
      const auto rows = x.matrix().rows;
      saved_type saved{std::move(x), buffer<W>(rows)};
      kernel::rms_norm(y.matrix(), saved.inverse_root.span(), std::as_const(saved.x).matrix(),
                       gain_->use().values());
      return {std::move(y), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      if (!gradient.only_holder()) gradient = gradient.clone();
      kernel::rms_norm_backward(gradient.matrix(), gain_->gradient().values(),
                                std::as_const(gradient).matrix(), std::as_const(saved.x).matrix(),
                                gain_->use().values(), saved.inverse_root.span());
      return gradient;
    }
    template <class F>
    void for_each_parameter(F&& f) {
      f(*gain_);
    }

   private:
    std::unique_ptr<weight_type> gain_;
  };
};

}  // namespace tenon::inline v0
