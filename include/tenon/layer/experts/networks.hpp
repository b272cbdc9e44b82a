// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/grouped_product.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/pointwise.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0 {

/// What an expert is, without biases.
enum class expert_form : std::uint8_t {
  gelu,   ///< down(gelu(up(x)))
  swiglu  ///< down(silu(gate(x)) * up(x))
};

/// The experts of this rank: weights [experts, hidden, ffn] and [experts, ffn, hidden] used in
/// placement `Use`, and their products with rows that are grouped by expert.
/// Thread-safety: none; it belongs to one rank's thread.
template <expert_form Form, element E, class Use>
class expert_networks {
  static constexpr bool gated = Form == expert_form::swiglu;
  using in_type = parameter<E, dims<experts, hidden, ffn>, Use>;
  using out_type = parameter<E, dims<experts, ffn, hidden>, Use>;

 public:
  struct saved_type {
    buffer<E> x;     // [rows, hidden]
    buffer<E> gate;  // [rows, ffn], where there is one
    buffer<E> up;    // [rows, ffn]
  };

  explicit expert_networks(const layer_context<typename Use::mesh_type>& context)
      : state_(&context.state),
        up_(made<in_type>(context, "up", context.sizes.deviation)),
        down_(made<out_type>(context, "down", context.sizes.branch_deviation)) {
    if constexpr (gated) gate_ = made<in_type>(context, "gate", context.sizes.deviation);
  }

  /// The experts that this rank has, among all of them.
  template <mesh_axis Axis>
  const partition& experts_on() const {
    return up_->owned_where().template partition_on<Axis>();
  }

  /// x [rows, hidden], counts[e] rows of each expert here, gives [rows, hidden].
  std::pair<buffer<E>, saved_type> forward(buffer<E> x, std::span<const std::int64_t> counts) {
    const std::int64_t rows = sum_of(counts);
    saved_type saved{std::move(x), buffer<E>(gated ? rows * width() : 0),
                     buffer<E>(rows * width())};
    const auto input = narrow(saved.x, rows);
    multiply(wide_rows(saved.up, rows), input, *up_, counts);
    if constexpr (gated) multiply(wide_rows(saved.gate, rows), input, *gate_, counts);
    const buffer<E> inner = activated(saved, rows);
    buffer<E> y(rows * height());
    multiply(narrow(y, rows), wide_rows(inner, rows), *down_, counts);
    return {std::move(y), std::move(saved)};
  }

  /// From dy [rows, hidden] the gradient of x; adds up the gradients of the weights.
  buffer<E> backward(buffer<E> dy, saved_type saved, std::span<const std::int64_t> counts) {
    const std::int64_t rows = sum_of(counts);
    // What the products for the weights' gradients read: they may be put off.
    struct operands {
      saved_type saved;
      buffer<E> dy;
      buffer<E> inner;
      std::vector<std::int64_t> counts;
    };
    const bool later = state_->deferred != nullptr;
    buffer<E> inner = activated(saved, rows);
    buffer<E> d_inner(rows * width());
    multiply_back(wide_rows(d_inner, rows), narrow(std::as_const(dy), rows), *down_, counts);
    differentiate(saved, d_inner, rows);
    d_inner = {};
    // The gradients of gate and up now stand where gate and up stood.
    const auto add_down = [this, rows](const operands& all) {
      kernel::grouped_outer_product(down_->gradient().matrix(), wide_rows(all.inner, rows),
                                    narrow(all.dy, rows), all.counts);
    };
    const auto add_rest = [this, rows](const operands& all) {
      const auto input = narrow(all.saved.x, rows);
      kernel::grouped_outer_product(up_->gradient().matrix(), input, wide_rows(all.saved.up, rows),
                                    all.counts);
      if constexpr (gated) {
        kernel::grouped_outer_product(gate_->gradient().matrix(), input,
                                      wide_rows(all.saved.gate, rows), all.counts);
      }
    };
    const auto all = std::make_shared<operands>(operands{
        std::move(saved), std::move(dy), std::move(inner), {counts.begin(), counts.end()}});
    buffer<E> dx;
    if (later) {
      dx = buffer<E>(rows * height());
      state_->deferred->push_back([all, add_down, add_rest] {
        add_down(*all);
        add_rest(*all);
      });
    } else {
      add_down(*all);
      all->inner = {};
      dx = std::move(all->dy);  // its memory takes the result
    }
    multiply_back(narrow(dx, rows), wide_rows(std::as_const(all->saved.up), rows), *up_, counts);
    if constexpr (gated) {
      multiply_back(narrow(dx, rows), wide_rows(std::as_const(all->saved.gate), rows), *gate_,
                    counts, kernel::output::accumulate);
    }
    if (!later) add_rest(*all);
    return dx;
  }

  template <class F>
  void for_each_parameter(F&& f) {
    if constexpr (gated) f(*gate_);
    f(*up_);
    f(*down_);
  }

 private:
  template <class Parameter>
  static std::unique_ptr<Parameter> made(const layer_context<typename Use::mesh_type>& context,
                                         std::string_view part, double deviation) {
    const auto mine = context.child(part);
    return std::make_unique<Parameter>(
        mine, parameter_declaration{mine.name + ".weight", parameter_role::matrix,
                                    initial_values::normal(deviation)});
  }

  std::int64_t width() const { return up_->owned_where().template extent<ffn>(); }
  std::int64_t height() const { return up_->owned_where().template extent<hidden>(); }

  template <class Buffer>
  auto narrow(Buffer& values, std::int64_t rows) const {
    return view_of(values.data(), rows, height());
  }
  template <class Buffer>
  auto wide_rows(Buffer& values, std::int64_t rows) const {
    return view_of(values.data(), rows, width());
  }

  template <class C, class A, class W>
  static void multiply(C c, A a, W& weight, std::span<const std::int64_t> counts) {
    kernel::grouped_product(c, a, weight.use().matrix(), kernel::orientation::as_stored, counts);
  }
  template <class C, class A, class W>
  static void multiply_back(C c, A a, W& weight, std::span<const std::int64_t> counts,
                            kernel::output how = kernel::output::overwrite) {
    kernel::grouped_product(c, a, weight.use().matrix(), kernel::orientation::transposed, counts,
                            how);
  }

  // What `down` multiplies; made again for backward, which costs less than to keep it.
  buffer<E> activated(const saved_type& saved, std::int64_t rows) const {
    buffer<E> inner(saved.up.size());
    const auto up = wide_rows(saved.up, rows);
    if constexpr (gated) {
      kernel::run(kernel::read{wide_rows(saved.gate, rows)} | kernel::swiglu{kernel::read{up}} |
                  kernel::write{wide_rows(inner, rows)});
    } else {
      kernel::run(kernel::read{up} | kernel::value_of<function::gelu>{} |
                  kernel::write{wide_rows(inner, rows)});
    }
    return inner;
  }
  void differentiate(saved_type& saved, const buffer<E>& d_inner, std::int64_t rows) const {
    const auto up = wide_rows(saved.up, rows);
    const kernel::read up_read{wide_rows(std::as_const(saved.up), rows)};
    const kernel::read gradient{wide_rows(d_inner, rows)};
    if constexpr (gated) {
      kernel::run(gradient | kernel::swiglu_backward{
                                 kernel::read{wide_rows(std::as_const(saved.gate), rows)}, up_read,
                                 kernel::write{wide_rows(saved.gate, rows)}, kernel::write{up}});
    } else {
      kernel::run(up_read | kernel::slope_of<function::gelu>{} | kernel::multiply{gradient} |
                  kernel::write{up});
    }
  }

  const run_state* state_;
  std::unique_ptr<in_type> gate_;
  std::unique_ptr<in_type> up_;
  std::unique_ptr<out_type> down_;
};

}  // namespace tenon::inline v0
