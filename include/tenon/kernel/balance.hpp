// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tenon/kernel/rows/row_blocks.hpp"

// The loss that keeps experts in balance. For a sequence of T tokens that choose k of E experts:
//
//   f(e) = E / (k T) x (tokens that chose e)       p(e) = mean share of e over the tokens
//   loss = sum over e of f(e) p(e)                 1 when all experts are chosen alike
//
// f counts as a constant in the gradient.
// Source: W. Fedus, B. Zoph, N. Shazeer, Switch transformers, 2021; by sequence: DeepSeek-AI,
// DeepSeek-V2, 2024.
namespace tenon::inline v0::kernel {

/// f and p of each sequence from the tokens here: `fractions` and `means` [sequences, experts].
/// `shares` [sequences x tokens here, experts], `chosen` [sequences x tokens here, k]. Where
/// tokens of a sequence are elsewhere too, `tokens` (of the whole sequence) makes these the terms
/// of a sum.
template <element W>
void balance_sums(matrix_view<double> fractions, matrix_view<double> means, input<W> shares,
                  input<std::int32_t> chosen, std::int64_t tokens) {
  detail::require_rows("balance_sums", fractions, means);
  const std::int64_t sequences = fractions.rows;
  if (sequences == 0 || tokens == 0) return;
  require(shares.rows == chosen.rows && shares.rows % sequences == 0, "balance_sums: ", shares.rows,
          " and ", chosen.rows, " rows were given for ", sequences, " sequences; give whole ones");
  const std::int64_t here = shares.rows / sequences;
  const double mean = 1 / static_cast<double>(tokens);
  const double fraction =
      static_cast<double>(shares.columns) * mean / static_cast<double>(chosen.columns);
  for_each_team(sequences, {.elements_each = here * shares.columns},
                [&](host_team& team, std::int64_t s) {
                  double* f = fractions.row(s);
                  double* p = means.row(s);
                  team.for_each(shares.columns, [=](std::int64_t e) { f[e] = p[e] = 0; });
                  for (std::int64_t t = s * here; t < (s + 1) * here; ++t) {
                    const W* share = shares.row(t);
                    team.for_each(shares.columns,
                                  [=](std::int64_t e) { p[e] += static_cast<double>(share[e]); });
                    for (std::int64_t i = 0; i < chosen.columns; ++i) f[chosen(t, i)] += 1;
                  }
                  team.for_each(shares.columns, [=](std::int64_t e) {
                    f[e] *= fraction;
                    p[e] *= mean;
                  });
                });
}

/// dx += the gradient of scale x (the losses of all sequences) with respect to what the shares are
/// the softmax of: share (slope - sum(slope share)), slope(e) = scale f(e) / tokens.
template <element W>
void balance_backward(matrix_view<W> dx, input<W> shares, input<double> fractions,
                      std::int64_t tokens, double scale) {
  detail::require_rows("balance_backward", dx, shares);
  if (dx.rows == 0) return;
  const std::int64_t here = dx.rows / fractions.rows;
  const double slope = scale / static_cast<double>(tokens);
  for_each_team(dx.rows, {.elements_each = dx.columns}, [&](host_team& team, std::int64_t t) {
    W* to = dx.row(t);
    const W* share = shares.row(t);
    const double* f = fractions.row(t / here);
    const double mean = team.sum<double>(
        dx.columns, [=](std::int64_t e) { return f[e] * static_cast<double>(share[e]); });
    team.for_each(dx.columns, [=](std::int64_t e) {
      to[e] += static_cast<W>(slope * static_cast<double>(share[e]) * (f[e] - mean));
    });
  });
}

}  // namespace tenon::inline v0::kernel
