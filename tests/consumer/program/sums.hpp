// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "tenon/communicate/simulated.hpp"
#include "tenon/tensor/redistribute.hpp"

/// Every rank holds a term of a sum over `batch` rows; the ranks sum it and share the rows out. The
/// sum of all rows on all ranks.
inline double sum_over(int ranks, std::int64_t rows) {
  using namespace tenon;
  using terms = tenon::tensor<fp64, dims<batch, hidden>, placement<on<axis::data, partial>>>;
  std::atomic<double> total = 0;
  simulate(ranks, [&](transport& world) {
    tenon::ranks<mesh<axis::data>> all(world, mesh<axis::data>({ranks}, world.rank()));
    terms mine(all, {rows, 3});
    for (double& value : mine.values()) value = world.rank() + 1;
    const auto shares = redistribute<axis::data, sharded<batch>>(std::move(mine));
    for (const double value : shares.values()) total += value;
  });
  return total;
}

double checked_sum(int ranks, std::int64_t rows);
double fast_sum(int ranks, std::int64_t rows);
