// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/train/trainer.hpp"

namespace pretrain_decoder {

using grid = tenon::decoder_mesh;

/// One parameter, for the table at the start.
struct parameter_line {
  std::string name;
  std::string dims;
  std::string owner;
  std::string use;
  std::int64_t elements = 0;
};

/// A training run whose element and stream are chosen at run time: the one place where they become
/// types is `make_run`, and each element is a unit of its own.
class any_run {
 public:
  virtual ~any_run() = default;
  virtual tenon::step_result step(const tenon::token_source& source) = 0;
  virtual tenon::prices_on<grid> predicted_traffic() const = 0;
  virtual std::int32_t next_token(
      std::span<const std::int32_t> tokens,
      const std::function<std::int32_t(std::span<const float>)>& choose) = 0;
  virtual std::vector<parameter_line> parameter_lines() = 0;
  virtual void set_overlap(bool overlap) = 0;
};

/// Makes the run of an element; `split_sequence` chooses the stream.
std::unique_ptr<any_run> make_run(tenon::element_kind element, bool split_sequence,
                                  tenon::ranks<grid>& group, const tenon::decoder_shape& shape,
                                  const tenon::trainer_settings& settings);

std::unique_ptr<any_run> make_fp64_run(bool split_sequence, tenon::ranks<grid>& group,
                                       const tenon::decoder_shape& shape,
                                       const tenon::trainer_settings& settings);
std::unique_ptr<any_run> make_fp32_run(bool split_sequence, tenon::ranks<grid>& group,
                                       const tenon::decoder_shape& shape,
                                       const tenon::trainer_settings& settings);
std::unique_ptr<any_run> make_bf16_run(bool split_sequence, tenon::ranks<grid>& group,
                                       const tenon::decoder_shape& shape,
                                       const tenon::trainer_settings& settings);

}  // namespace pretrain_decoder

// The trainers are compiled in units/, one element each.
namespace tenon::inline v0 {

extern template class trainer<fp64, stream_state::whole>;
extern template class trainer<fp64, stream_state::split_sequence>;
extern template class trainer<fp32, stream_state::whole>;
extern template class trainer<fp32, stream_state::split_sequence>;
extern template class trainer<bf16, stream_state::whole>;
extern template class trainer<bf16, stream_state::split_sequence>;
extern template class decoder_model<fp64, stream_state::whole>;
extern template class decoder_model<fp64, stream_state::split_sequence>;
extern template class decoder_model<fp32, stream_state::whole>;
extern template class decoder_model<fp32, stream_state::split_sequence>;
extern template class decoder_model<bf16, stream_state::whole>;
extern template class decoder_model<bf16, stream_state::split_sequence>;

}  // namespace tenon::inline v0
