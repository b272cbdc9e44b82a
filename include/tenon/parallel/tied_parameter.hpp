// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/communicate/point_to_point.hpp"
#include "tenon/kernel/flat.hpp"
#include "tenon/layer/any_parameter.hpp"
#include "tenon/layer/prices.hpp"

namespace tenon::inline v0 {

/// A parameter that the first and the last stage of a pipeline use: a table tied to the head. The
/// first stage owns it; the last holds a copy, whose gradient is added to the owner's and which
/// gets the owner's new values, part by part, whatever shards there are.
///
///   stage 0        gradient --+--> step --> values --.
///                             ^                      v
///   stage P - 1    gradient --'                   values of the copy
///
/// On other stages, and with one stage, there is nothing to do.
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class tied_parameter {
 public:
  tied_parameter() = default;
  /// `parameter` is null where the stage has none.
  tied_parameter(communicator& pipeline, any_parameter<Wide>* parameter) : line_(&pipeline) {
    if (pipeline.size() > 1) parameter_ = parameter;
    if (is_copy()) parameter_->mark_copy();
  }

  /// True on the last stage: what it holds is stepped elsewhere.
  bool is_copy() const noexcept { return parameter_ != nullptr && line_->rank() != 0; }
  const any_parameter<Wide>* parameter() const noexcept { return parameter_; }

  /// Collective over the two stages: the gradients of all uses, together on the first.
  void sum_gradients() {
    if (parameter_ == nullptr) return;
    const phase_scope inside(line_->book(), "gradients");
    if (is_copy()) {
      communicate::send(*line_, std::span<const Wide>(parameter_->owned_gradient()), 0,
                        {.tensor = "tied gradient", .tag = 2});
      return;
    }
    buffer<Wide> others(parameter_->owned_elements());
    communicate::receive(*line_, others.span(), line_->size() - 1,
                         {.tensor = "tied gradient", .tag = 2});
    kernel::add_scaled(parameter_->owned_gradient(), 1, others.span());
  }

  /// Collective over the two stages, after the owner's step and before weights are gathered: the
  /// copy gets the values, in the element of products.
  void send_values() {
    if (parameter_ == nullptr) return;
    const phase_scope inside(line_->book(), "publish");
    const element_kind kind = parameter_->use_element();
    buffer<std::byte> values(parameter_->owned_elements() * bytes_of(kind));
    const call_options options{.tensor = "tied values", .tag = 3};
    if (is_copy()) {
      communicate::receive(*line_, values.span(), 0, options);
      if (values.data() != nullptr) parameter_->set_part(values.data());
      return;
    }
    if (values.data() != nullptr) parameter_->round_part(values.data());
    communicate::send(*line_, std::span<const std::byte>(values.span()), line_->size() - 1,
                      options);
  }

  template <class Mesh>
  void add_prices(prices_on<Mesh>& prices) const {
    if (parameter_ == nullptr) return;
    const std::int64_t elements = parameter_->owned_elements();
    if (is_copy()) {
      prices.add(line_->axis(), "send", "gradients",
                 elements * static_cast<std::int64_t>(sizeof(Wide)));
    } else {
      prices.add(line_->axis(), "send", "publish", elements * bytes_of(parameter_->use_element()));
    }
  }

 private:
  communicator* line_ = nullptr;
  any_parameter<Wide>* parameter_ = nullptr;
};

}  // namespace tenon::inline v0
