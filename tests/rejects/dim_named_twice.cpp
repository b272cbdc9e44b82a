// expect: dims: a dim is named twice; name each dim once
// SPDX-License-Identifier: Apache-2.0
#include "tenon/placement.hpp"

using namespace tenon;

#ifdef CONTROL
using square = dims<hidden, ffn>;
#else
using square = dims<hidden, hidden>;
#endif

std::size_t count = square::size;
