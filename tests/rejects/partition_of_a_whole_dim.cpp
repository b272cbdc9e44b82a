// expect: layout: this axis cuts no dim of the tensor; give a partition where it is sharded
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

template <class S>
using where = layout<dims<sequence>, placement<on<axis::data, S>>>;

#ifdef CONTROL
using held = sharded<sequence>;
#else
using held = replicated;
#endif

auto uneven = where<held>(12, mesh<axis::data>({2}))
                  .template with<axis::data>(partition::weighted(12, {1, 2}));
