// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/train/trainer.hpp"

// For programs that use the trainers by their types: they are compiled in units/, one element and
// stream each, and linked.
namespace tenon::inline v0 {

extern template class trainer<fp64, stream_state::whole>;
extern template class trainer<fp64, stream_state::split_sequence>;
extern template class trainer<fp64, stream_state::grid>;
extern template class trainer<fp32, stream_state::whole>;
extern template class trainer<fp32, stream_state::split_sequence>;
extern template class trainer<fp32, stream_state::grid>;
extern template class trainer<bf16, stream_state::whole>;
extern template class trainer<bf16, stream_state::split_sequence>;
extern template class trainer<bf16, stream_state::grid>;
extern template class decoder_model<fp64, stream_state::whole>;
extern template class decoder_model<fp64, stream_state::split_sequence>;
extern template class decoder_model<fp64, stream_state::grid>;
extern template class decoder_model<fp32, stream_state::whole>;
extern template class decoder_model<fp32, stream_state::split_sequence>;
extern template class decoder_model<fp32, stream_state::grid>;
extern template class decoder_model<bf16, stream_state::whole>;
extern template class decoder_model<bf16, stream_state::split_sequence>;
extern template class decoder_model<bf16, stream_state::grid>;

}  // namespace tenon::inline v0
