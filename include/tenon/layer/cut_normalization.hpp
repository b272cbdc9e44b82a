// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tenon/kernel/rows/cut_norm.hpp"
#include "tenon/layer/grid_assignment.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/row_statistics.hpp"

namespace tenon::inline v0 {

namespace detail {

/// A norm over the last dim `D` where an axis cuts it: the form that declares the moves of its
/// statistics, sums over the rank's columns in the wide element. Of each row it sums forward the
/// squares, and before them, with a mean (`Centred`), the values; backward one number, or two.
/// The sums of squares are of distances from the mean, so that nothing cancels.
template <class D, bool Centred>
struct cut_norm {
  template <class In>
  class bound {
    static_assert(is_tensor<In>, "norm: the input is several tensors; norm them one by one");
    using E = typename In::element_type;
    using W = wide<E>;
    using P = typename In::placement_type;
    using dims_type = typename In::dims_type;
    using mesh_type = typename In::mesh_type;
    static_assert(dims_type::template has<D> &&
                      dims_type::template position<D> + 1 == dims_type::size,
                  "norm: the dim to be normalised is not the last dim of the input");
    static_assert(!any_partial<P>,
                  "norm: a function that is not linear was given a sum that is still to be done; "
                  "reduce it first: redistributed<axis, invariant> or redistributed<axis, "
                  "sharded<dim>>");
    using rows = dims_without_t<dims_type, dims<D>>;
    using slopes = std::conditional_t<Centred, joined_dims_t<dims<statistics>, rows>, rows>;
    using placed = typename row_placement<P, partial, D>::type;
    using sums_type = tensor<W, rows, placed>;
    using slopes_type = tensor<W, slopes, placed>;
    using reduced_type = decltype(reduced_everywhere(std::declval<sums_type>(), {}));
    using weight_type = parameter<E, dims<D>, partner_placement<P, dims<D>>>;
    using one_sum = typename reducing_over<W, rows, placed, mesh_type>::type;

   public:
    using output_type = In;
    using forward_transfers =
        std::conditional_t<Centred, joined_transfers<one_sum, one_sum>, one_sum>;
    using backward_transfers = typename reducing_over<W, slopes, placed, mesh_type>::type;
    struct saved_type {
      In x;
      reduced_type mean;  // none when it is not centred
      reduced_type inverse;
    };

    explicit bound(const layer_context<mesh_type>& context)
        : gain_(made(context, ".gain", parameter_role::gain, 1)), name_(context.name) {
      if constexpr (Centred) bias_ = made(context, ".bias", parameter_role::bias, 0);
    }

    std::pair<output_type, saved_type> forward(In x) {
      const std::int64_t columns = x.global_shape().template of<D>();
      const auto m = std::as_const(x).matrix();
      reduced_type mean;
      if constexpr (Centred) {
        sums_type local(x.group(), rows_of(x));
        kernel::row_sums<E>(local.values(), m);
        mean = reduced_everywhere(std::move(local), name_);
        kernel::divide_by_columns(mean.values(), columns);
      }
      sums_type local(x.group(), rows_of(x));
      kernel::row_square_sums<E>(local.values(), m, values_of(mean));
      reduced_type squares = reduced_everywhere(std::move(local), name_);
      In y(x.group(), x.where());
      kernel::cut_norm(y.matrix(), squares.values(), m, values_of(mean), gain_->use().values(),
                       bias_values(), columns);
      return {std::move(y), saved_type{std::move(x), std::move(mean), std::move(squares)}};
    }

    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      if (!gradient.only_holder()) gradient = gradient.clone();
      const auto dy = std::as_const(gradient).matrix();
      const auto x = std::as_const(saved.x).matrix();
      const std::span<const W> mean = values_of(saved.mean);
      const std::span<const W> inverse = values_of(saved.inverse);
      slopes_type local(saved.x.group(), slopes_of(saved.x));
      kernel::cut_norm_slopes<E>(part(local.values(), 0, x.rows), part(local.values(), 1, x.rows),
                                 dy, x, gain_->use().values(), mean, inverse);
      const auto sums = reduced_everywhere(std::move(local), name_);
      std::span<W> bias_gradient;
      if constexpr (Centred) bias_gradient = bias_->gradient().values();
      kernel::cut_norm_backward(gradient.matrix(), gain_->gradient().values(), bias_gradient, dy, x,
                                gain_->use().values(), mean, inverse,
                                part(sums.values(), 0, x.rows), part(sums.values(), 1, x.rows),
                                saved.x.global_shape().template of<D>());
      return gradient;
    }

    template <class F>
    void for_each_parameter(F&& f) {
      f(*gain_);
      if constexpr (Centred) f(*bias_);
    }

   private:
    static std::unique_ptr<weight_type> made(const layer_context<mesh_type>& context,
                                             const char* part, parameter_role role, double value) {
      return std::make_unique<weight_type>(
          context, parameter_declaration{context.name + part, role, initial_values::all(value)});
    }
    // The extents of the rows, and of the sums that backward makes.
    static shape<rows> rows_of(const In& x) {
      shape<rows> extents;
      for (std::size_t d = 0; d < rows::size; ++d) {
        extents.extents[d] = x.global_shape().extents[d];
      }
      return extents;
    }
    static shape<slopes> slopes_of(const In& x) {
      shape<slopes> extents;
      constexpr std::size_t first = slopes::size - rows::size;
      if constexpr (Centred) extents.extents[0] = 2;
      for (std::size_t d = 0; d < rows::size; ++d) {
        extents.extents[first + d] = x.global_shape().extents[d];
      }
      return extents;
    }
    static std::span<const W> values_of(const reduced_type& sums) {
      return sums.holds_memory() ? sums.values() : std::span<const W>();
    }
    std::span<const E> bias_values() const {
      if constexpr (Centred) return bias_->use().values();
      return {};
    }
    // The sums along x, then those along one, where there are such.
    template <class T>
    static std::span<T> part(std::span<T> all, std::size_t i, std::int64_t rows_here) {
      const auto count = static_cast<std::size_t>(rows_here);
      if (all.empty() || (i == 1 && !Centred)) return {};
      return all.subspan(i * count, count);
    }

    std::unique_ptr<weight_type> gain_;
    std::unique_ptr<weight_type> bias_;
    std::string name_;
  };
};

}  // namespace detail

/// The norms on a grid of ranks, where the dim lies on the grid's columns.
template <class D, class Row, class Column, class... Ds>
struct layer_norm<D, grid_assignment<Row, Column, Ds...>> : detail::cut_norm<D, true> {};
template <class D, class Row, class Column, class... Ds>
struct rms_norm<D, grid_assignment<Row, Column, Ds...>> : detail::cut_norm<D, false> {};

}  // namespace tenon::inline v0
