// SPDX-License-Identifier: Apache-2.0
// Compiled against the one-file form of tenon/placement.hpp and nothing else.
#include <concepts>
#include <cstdio>

#include "placement.hpp"

int main() {
  using tenon::partial;
  using tenon::replicated;
  static_assert(std::same_as<tenon::gradient_state<tenon::gradient_state<replicated>>, replicated>);
  static_assert(std::same_as<tenon::gradient_state<replicated>, partial>);
  std::puts("placement.hpp stands alone");
}
