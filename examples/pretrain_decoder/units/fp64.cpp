// SPDX-License-Identifier: Apache-2.0
#include "../typed_run.hpp"

namespace tenon::inline v0 {

template class decoder_model<fp64, stream_state::whole>;
template class trainer<fp64, stream_state::whole>;

}  // namespace tenon::inline v0

namespace pretrain_decoder {

template std::unique_ptr<any_run> make_typed_run<tenon::fp64>(
    ranks_for<tenon::stream_state::whole>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);

}  // namespace pretrain_decoder
