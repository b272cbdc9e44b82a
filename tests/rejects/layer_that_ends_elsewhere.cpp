// expect: any_layer: the layer does not give the stream that it takes; end it with the move that leads back to the stream's state
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/any_layer.hpp"
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

auto made(const layer_context<mesh<axis::tensor>>& context) {
  return make_layer<block, stream>(context);
}
