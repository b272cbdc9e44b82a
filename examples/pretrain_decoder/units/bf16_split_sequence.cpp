// SPDX-License-Identifier: Apache-2.0
#include "../typed_run.hpp"

namespace tenon::inline v0 {

template class decoder_model<bf16, stream_state::split_sequence>;
template class trainer<bf16, stream_state::split_sequence>;

}  // namespace tenon::inline v0

namespace pretrain_decoder {

template std::unique_ptr<any_run> make_typed_run<tenon::bf16>(
    ranks_for<tenon::stream_state::split_sequence>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);

}  // namespace pretrain_decoder
