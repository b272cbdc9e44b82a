// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/layer/pointwise.hpp"

namespace tenon::inline v0 {

/// SwiGLU: from (gate, up), both of the same type, silu(gate) * up.
/// Source: N. Shazeer, GLU variants improve transformer, 2020.
struct swiglu {
  template <class In>
  class bound : public without_parameters, public without_transfers {
    static_assert(!is_tensor<In>, "swiglu: the input is one tensor; give the pair (gate, up)");
    using gate_type = std::tuple_element_t<0, In>;
    static_assert(std::is_same_v<In, std::tuple<gate_type, gate_type>>,
                  "swiglu: gate and up are of different types; place both alike");
    static_assert(no_sum_to_be_done<typename gate_type::placement_type>,
                  "swiglu: a function that is not linear was given a sum that is still to be done; "
                  "reduce it first");

   public:
    using output_type = gate_type;
    using saved_type = In;

    explicit bound(const layer_context<typename gate_type::mesh_type>&) {}

    std::pair<output_type, saved_type> forward(In x) {
      const auto& [gate, up] = x;
      gate_type y(gate.group(), gate.where());
      kernel::run(kernel::read{detail::flat(gate)} |
                  kernel::swiglu{kernel::read{detail::flat(up)}} | kernel::write{detail::flat(y)});
      return {std::move(y), std::move(x)};
    }
    gradient_of_value<In> backward(gradient_of_value<gate_type> gradient, saved_type x) {
      auto& [gate, up] = x;
      using G = gradient_of_value<gate_type>;
      G d_gate(gate.group(), gradient_layout(gate.where()));
      G d_up(up.group(), gradient_layout(up.where()));
      kernel::run(kernel::read{detail::flat(std::as_const(gradient))} |
                  kernel::swiglu_backward{kernel::read{detail::flat(std::as_const(gate))},
                                          kernel::read{detail::flat(std::as_const(up))},
                                          kernel::write{detail::flat(d_gate)},
                                          kernel::write{detail::flat(d_up)}});
      return {std::move(d_gate), std::move(d_up)};
    }
  };
};

}  // namespace tenon::inline v0
