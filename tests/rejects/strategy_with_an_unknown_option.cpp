// expect: tensor_parallel: this option is not known; the one there is is split_sequence
// SPDX-License-Identifier: Apache-2.0
#include "tenon/parallel/strategy.hpp"

using namespace tenon;

struct split_hidden {
  static constexpr void set(run_strategy&) noexcept {}
};

#ifdef CONTROL
using plan = strategy<tensor_parallel<2, split_sequence>>;
#else
using plan = strategy<tensor_parallel<2, split_hidden>>;
#endif

constexpr run_strategy run = plan::values();
