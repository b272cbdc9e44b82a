// SPDX-License-Identifier: Apache-2.0
#include "../typed_run.hpp"

namespace tenon::inline v0 {

template class decoder_model<fp32, stream_state::whole>;
template class decoder_model<fp32, stream_state::split_sequence>;
template class trainer<fp32, stream_state::whole>;
template class trainer<fp32, stream_state::split_sequence>;

}  // namespace tenon::inline v0

namespace pretrain_decoder {

std::unique_ptr<any_run> make_fp32_run(any_ranks& group, const tenon::decoder_shape& shape,
                                       const tenon::trainer_settings& settings) {
  return make_typed_run<tenon::fp32>(group, shape, settings);
}

}  // namespace pretrain_decoder
