// SPDX-License-Identifier: Apache-2.0
//
// A pipeline schedule of a user's own: a table, which the compiler proves. Two stages; the second
// is given its first gradient as early as can be, and the first does two forwards between
// backwards.
#include <cstdio>

#include "tenon/parallel/schedule/chart.hpp"
#include "tenon/parallel/schedule/check.hpp"
#include "tenon/parallel/schedule/time.hpp"

using namespace tenon;

constexpr schedule_entry F(int microbatch) { return {pass_kind::forward, microbatch, 0}; }
constexpr schedule_entry B(int microbatch) { return {pass_kind::backward, microbatch, 0}; }

constexpr schedule_table pairs() {
  return {{.stages = 2, .microbatches = 4, .chunks = 1},
          {{F(0), F(1), F(2), B(0), B(1), F(3), B(2), B(3)},
           {F(0), B(0), F(1), B(1), F(2), B(2), F(3), B(3)}}};
}
// Each microbatch goes forward and back once on each stage, every send meets its receive, and no
// rank waits for ever, even when sends block.
static_assert(!check_schedule(pairs(), 0).found());

// Exchanging two backwards on one stage alone is found, and named.
constexpr schedule_table wrong() {
  schedule_table table = pairs();
  table.ranks[0][3] = B(1);
  table.ranks[0][4] = B(0);
  return table;
}
static_assert(check_schedule(wrong()).kind == schedule_fault_kind::order_of_arrival);

int main() {
  const schedule_table mine = pairs();
  std::printf("%s", chart_text(mine, time_schedule(mine)).c_str());
  const schedule_fault fault = check_schedule(wrong());
  std::printf("the other one is wrong at rank %d, entry %d\n", static_cast<int>(fault.rank),
              static_cast<int>(fault.position));
  return check_schedule(mine).found() ? 1 : 0;
}

// Output:
//   rank 0 | F0 F1 F2 .  B0--- .  B1--- F3 B2--- .  B3---
//   rank 1 | .  F0 B0--- F1 B1--- F2 B2--- F3 B3--- .  .
//   the other one is wrong at rank 0, entry 3
