// expect: traffic: the price of a spread depends on the regions used; ask elements_spread
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

constexpr layout<dims<kv_heads>, placement<on<axis::tensor, sharded<kv_heads>>>> own(
    2, mesh<axis::tensor>({3}));

#ifdef CONTROL
constexpr auto price = elements_spread<axis::tensor>(own, own);
#else
constexpr auto price = elements_moved<spread<axis::tensor, kv_heads>>(own);
#endif
