// expect: shape: the tensor has no such dim; use a dim that its type names
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

constexpr shape<dims<batch, hidden>> extents(8, 16);

#ifdef CONTROL
constexpr auto width = extents.of<hidden>();
#else
constexpr auto width = extents.of<ffn>();
#endif
