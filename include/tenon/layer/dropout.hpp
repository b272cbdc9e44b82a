// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tenon/kernel/dropout.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/pointwise.hpp"

namespace tenon::inline v0 {

namespace detail {

// Where this rank's rows [batch, sequence, columns] stand in the step's whole batch.
template <class T>
kernel::global_index place_in_step(const T& x, const run_state& state, const context_plan& plan) {
  using D = typename T::dims_type;
  static_assert(
      D::template position<batch> == 0 && D::template position<sequence> == 1,
      "dropout: the input does not begin with the dims batch and sequence; order them so");
  const auto& regions = x.where().regions();
  std::int64_t begin = 0;
  std::int64_t columns = 1;
  for (std::size_t d = 2; d < D::size; ++d) {
    begin = begin * x.global_shape().extents[d] + regions[d].begin;
    columns *= x.global_shape().extents[d];
  }
  return {.batch_begin = state.batch_begin,
          .positions = positions_here(x, plan),
          .sequence_local = std::max<std::int64_t>(regions[1].size, 1),
          .sequence_global = x.global_shape().extents[1],
          .column_begin = begin,
          .columns_global = columns};
}

// The share that is dropped now.
inline float dropped_share(const run_state& state) {
  return state.training ? static_cast<float>(state.dropout) : 0.0F;
}

}  // namespace detail

/// Drops elements while training, as a function of (seed, the layer's name, step, global element)
/// alone: the same elements in every layout, equal where a tensor is replicated.
/// Source: N. Srivastava and others, Dropout, JMLR 2014.
struct dropout {
  template <class In>
  class bound : public without_parameters, public without_transfers, detail::elementwise_input<In> {
   public:
    using output_type = In;
    /// The mask is a function of the place: nothing is kept of it.
    struct saved_type {
      kernel::dropout drop;
    };

    explicit bound(const layer_context<typename In::mesh_type>& context)
        : name_(context.name + ".dropout"), state_(&context.state), sizes_(&context.sizes) {}

    std::pair<output_type, saved_type> forward(In x) {
      const saved_type saved{
          {.p = detail::dropped_share(*state_),
           .stream = random_stream(state_->seed, name_, static_cast<std::uint64_t>(state_->step)),
           .where = detail::place_in_step(x, *state_, sizes_->context)}};
      return {dropped(std::move(x), saved.drop), saved};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      return dropped(std::move(gradient), saved.drop);
    }

   private:
    template <class T>
    static T dropped(T x, const kernel::dropout& drop) {
      if (drop.idle()) return x;
      if (!x.only_holder()) x = x.clone();
      const auto m = x.template matrix<T::dims_type::size - 2>();
      kernel::run(kernel::read{m} | drop | kernel::write{m});
      return x;
    }

    std::string name_;
    const run_state* state_;
    const dim_sizes* sizes_;
  };
};

}  // namespace tenon::inline v0
