// expect: repeat: the layer does not give what it takes; end it with the move that leads back to the state of its input
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/chain.hpp"
#include "tenon/layer/redistributed.hpp"

using namespace tenon;

using stream =
    tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, sharded<sequence>>>>;
using enter = redistributed<axis::tensor, replicated>;
using leave = redistributed<axis::tensor, sharded<sequence>>;

#ifdef CONTROL
using block = chain<enter, leave>;
#else
using block = chain<enter>;
#endif

using result = output_of<repeat<4, block>, stream>;
