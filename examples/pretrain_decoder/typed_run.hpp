// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "run.hpp"

namespace pretrain_decoder {

/// The run of one element and one stream.
template <tenon::element E, class StreamState>
class typed_run final : public any_run {
 public:
  typed_run(ranks_for<StreamState>& group, const tenon::decoder_shape& shape,
            const tenon::trainer_settings& settings)
      : trainer_(group.held, shape, settings) {}

  tenon::step_result step(const tenon::token_source& source) override {
    return trainer_.step(source);
  }
  tenon::traffic_prices predicted_traffic() const override { return trainer_.predicted_traffic(); }
  std::int32_t next_token(
      std::span<const std::int32_t> tokens,
      const std::function<std::int32_t(std::span<const float>)>& choose) override {
    return trainer_.next_token(tokens, choose);
  }
  void set_overlap(bool overlap) override { trainer_.set_overlap(overlap); }
  std::vector<parameter_line> parameter_lines() override {
    std::vector<parameter_line> lines;
    for (const auto* parameter : trainer_.parameters()) {
      lines.push_back({parameter->declaration().name, parameter->dims_text(),
                       parameter->owner_text(), parameter->use_text(),
                       parameter->global_elements()});
    }
    return lines;
  }

 private:
  tenon::trainer<E, StreamState> trainer_;
};

template <tenon::element E, class StreamState>
std::unique_ptr<any_run> make_typed_run(ranks_for<StreamState>& group,
                                        const tenon::decoder_shape& shape,
                                        const tenon::trainer_settings& settings) {
  return std::make_unique<typed_run<E, StreamState>>(group, shape, settings);
}

}  // namespace pretrain_decoder
