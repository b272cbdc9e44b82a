// SPDX-License-Identifier: Apache-2.0
#include "../typed_run.hpp"

namespace tenon::inline v0 {

template class decoder_model<fp32, stream_state::grid>;
template class trainer<fp32, stream_state::grid>;

}  // namespace tenon::inline v0

namespace pretrain_decoder {

template std::unique_ptr<any_run> make_typed_run<tenon::fp32>(ranks_for<tenon::stream_state::grid>&,
                                                              const tenon::decoder_shape&,
                                                              const tenon::trainer_settings&);

}  // namespace pretrain_decoder
