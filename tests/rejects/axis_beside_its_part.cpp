// expect: placement: an axis stands beside one of its own parts; name the flat axis alone, or its two parts
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using tokens =
    placement<on<axis::data_replicate, replicated>, on<axis::data_shard, sharded<batch>>>;
#else
using tokens = placement<on<axis::data, replicated>, on<axis::data_shard, sharded<batch>>>;
#endif

std::string text = tokens::text();
