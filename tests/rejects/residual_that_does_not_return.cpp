// expect: residual: the branch does not give back the dims and the states of its input; end it with the product or the move that leads back to them
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/chain.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/layer/residual.hpp"

using namespace tenon;

using stream =
    tensor<fp32, dims<batch, sequence, hidden>, placement<on<axis::tensor, sharded<sequence>>>>;
using enter = redistributed<axis::tensor, replicated>;
using leave = redistributed<axis::tensor, sharded<sequence>>;

#ifdef CONTROL
using branch = chain<enter, leave>;
#else
using branch = chain<enter>;
#endif

using result = output_of<residual<branch>, stream>;
