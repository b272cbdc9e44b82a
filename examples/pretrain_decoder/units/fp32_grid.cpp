// SPDX-License-Identifier: Apache-2.0
#include "../run.hpp"

namespace tenon::inline v0 {

template class decoder_model<fp32, stream_state::grid>;
template class trainer<fp32, stream_state::grid>;

}  // namespace tenon::inline v0
