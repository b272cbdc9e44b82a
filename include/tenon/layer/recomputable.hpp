// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tenon/layer/concept.hpp"

namespace tenon::inline v0 {

/// A part of a block that runs forward a second time in backward, from its input alone, when the
/// run asks for `recompute::attention`; else it is the part itself. Random streams are functions of
/// the place, so that both forwards are the same.
/// Source: V. Korthikanti and others, Reducing activation recomputation in large transformer
/// models, MLSys 2023.
template <class L>
struct recomputable {
  template <class In>
  class bound {
    static_assert(is_tensor<In>, "recomputable: the input is several tensors; give one");
    using inner = bound_to<L, In>;

   public:
    using output_type = typename inner::output_type;
    /// What the part keeps, or, when it runs again, its input.
    struct saved_type {
      typename inner::saved_type kept;
      In input;
      bool again = false;
    };
    using forward_transfers = typename inner::forward_transfers;
    using backward_transfers = typename inner::backward_transfers;
    using recomputed_transfers = forward_transfers;

    explicit bound(const layer_context<mesh_of_value<In>>& context)
        : part_(context), state_(&context.state) {}

    std::pair<output_type, saved_type> forward(In x) {
      const bool again = state_->training && state_->recompute == recompute::attention;
      In input = again ? x : In{};
      auto [y, kept] = part_.forward(std::move(x));
      saved_type saved;
      saved.again = again;
      if (again) {
        saved.input = std::move(input);
      } else {
        saved.kept = std::move(kept);
      }
      return {std::move(y), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      if (saved.again) {
        const phase_scope inside(saved.input.group().ledger(), "recompute");
        saved.kept = part_.forward(std::move(saved.input)).second;
      }
      return part_.backward(std::move(gradient), std::move(saved.kept));
    }
    template <class F>
    void for_each_parameter(F&& f) {
      part_.for_each_parameter(f);
    }

   private:
    inner part_;
    const run_state* state_;
  };
};

namespace detail {

template <class Bound>
struct find_recomputed_transfers {
  using type = transfers<>;
};
template <class Bound>
requires requires { typename Bound::recomputed_transfers; }
struct find_recomputed_transfers<Bound> {
  using type = typename Bound::recomputed_transfers;
};

}  // namespace detail

/// What a layer sends once more when the run asks for `recompute::attention`.
template <class Bound>
using recomputed_transfers_of = typename detail::find_recomputed_transfers<Bound>::type;

}  // namespace tenon::inline v0
