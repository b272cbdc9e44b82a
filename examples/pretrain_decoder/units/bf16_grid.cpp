// SPDX-License-Identifier: Apache-2.0
#include "../run.hpp"

namespace tenon::inline v0 {

template class decoder_model<bf16, stream_state::grid>;
template class trainer<bf16, stream_state::grid>;

}  // namespace tenon::inline v0
