// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "tenon/kernel/rotary.hpp"
#include "tenon/layer/attention_input.hpp"

namespace tenon::inline v0 {

/// Turns queries and keys by their positions (rotary positions), those of packed documents by their
/// places in them; values pass. The angles are in fp32 at least.
/// Source: J. Su and others, RoFormer, 2021.
struct rotary_positions {
  template <class In>
  class bound : public without_parameters, public without_transfers {
    using checked = detail::attention_input<In>;
    using E = typename checked::query_type::element_type;
    using angles = kernel::rotary_angles<wide<E>>;

   public:
    using output_type = In;
    struct saved_type {
      std::shared_ptr<const packed_documents> documents;
    };

    explicit bound(const layer_context<typename checked::query_type::mesh_type>& context)
        : state_(&context.state), sizes_(&context.sizes) {}

    std::pair<output_type, saved_type> forward(In x) {
      saved_type saved{state_->documents};
      prepare(std::get<0>(x), saved.documents != nullptr);
      turn(std::get<0>(x), kernel::rotation::forward, saved);
      turn(std::get<1>(x), kernel::rotation::forward, saved);
      return {std::move(x), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type saved) {
      turn(std::get<0>(gradient), kernel::rotation::backward, saved);
      turn(std::get<1>(gradient), kernel::rotation::backward, saved);
      return gradient;
    }

   private:
    // One row of angles for each row of a sequence here; where documents restart, for each place.
    template <class T>
    void prepare(const T& q, bool packed) {
      const auto length =
          packed ? q.global_shape().template of<sequence>() : q.template extent<sequence>();
      const auto width = q.template extent<head_width>();
      if (angles_ != nullptr && packed_ == packed && angles_->count == length &&
          angles_->head_width == width) {
        return;
      }
      const position_runs runs = packed ? position_runs{} : positions_here(q, sizes_->context);
      packed_ = packed;
      angles_ = std::make_shared<angles>(kernel::make_angles<wide<E>>(
          [runs](std::int64_t row) { return runs.at(row); }, length, width));
    }
    template <class T>
    void turn(T& x, kernel::rotation way, const saved_type& saved) {
      if (!x.only_holder()) x = x.clone();
      if (saved.documents == nullptr) {
        kernel::rotate(x.template matrix<2>(), *angles_, way);
      } else {
        kernel::rotate(x.template matrix<2>(), *angles_, way,
                       places_of_rows(x, sizes_->context, saved.documents.get()));
      }
    }

    const run_state* state_;
    const dim_sizes* sizes_;
    std::shared_ptr<angles> angles_;
    bool packed_ = false;
  };
};

}  // namespace tenon::inline v0
