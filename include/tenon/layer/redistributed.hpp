// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "tenon/layer/concept.hpp"
#include "tenon/tensor/redistribute.hpp"

namespace tenon::inline v0 {

/// The layer that is one move: its input comes to state `To` on `Axis`, and the gradient goes back
/// by the move between the gradients' states. A value given for `From` is checked.
template <class Axis, class To>
struct redistributed {
  template <class In>
  class bound : public without_parameters {
    static_assert(is_tensor<In>,
                  "redistributed: the input is several tensors; move each of them by itself");
    using element_type = typename In::element_type;
    using dims_type = typename In::dims_type;
    using placement_type = typename In::placement_type;
    static_assert(states_of_t<placement_type>::template names<Axis>,
                  "redistributed: the input does not name this axis; use an axis of its mesh");
    using from = state_on_t<placement_type, Axis>;
    static_assert(has_move<Axis, from, To>,
                  "redistributed: no move leads from the input's state to the one asked for; see "
                  "the table of moves");
    static_assert(cuts_only<with_state<placement_type, Axis, To>, dims_type>,
                  "redistributed: the dim to cut is not a dim of the input; cut one of its dims");

   public:
    using output_type = tensor<element_type, dims_type, with_state<placement_type, Axis, To>>;
    /// Where the input was cut, when not in balanced pieces: the gradient is cut alike.
    struct saved_type {
      std::optional<partition> cut;
    };
    using gradient_placed = gradient_placement<typename output_type::placement_type>;
    using forward_transfers =
        one_transfer<move<Axis, from, To>, element_type, dims_type, placement_type>;
    using backward_transfers =
        one_transfer<backward_move<Axis, from, To>, element_type, dims_type, gradient_placed>;

    explicit bound(const layer_context<typename In::mesh_type>& context) : name_(context.name) {}

    std::pair<output_type, saved_type> forward(In x) {
      saved_type saved;
      if constexpr (is_sharded<from>) {
        if (x.where().template is_custom<Axis>()) {
          saved.cut = x.where().template partition_on<Axis>();
        }
      }
      return {redistribute<Axis, To>(std::move(x), name_), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      return redistribute<Axis, gradient_state<from>>(std::move(gradient), name_,
                                                      saved.cut ? &*saved.cut : nullptr);
    }

   private:
    std::string name_;
  };
};

}  // namespace tenon::inline v0
