// SPDX-License-Identifier: Apache-2.0
#include "sums.hpp"
#include "tenon/tenon.hpp"

double fast_sum(int ranks, std::int64_t rows) { return sum_over(ranks, rows); }
