// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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

namespace programs {

/// One sequence of `balance_sums`.
template <element W>
struct balance_sums {
  static constexpr std::string_view name = "balance_sums";
  matrix_view<double> fractions;
  matrix_view<double> means;
  matrix_view<const W> shares;
  matrix_view<const std::int32_t> chosen;
  std::int64_t here;  // tokens of the sequence
  double fraction;
  double mean;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t s) const {
    double* f = fractions.row(s);
    double* p = means.row(s);
    // Each lane has experts of its own, and goes through the tokens in their order.
    team.for_each(shares.columns, [=, this](std::int64_t e) {
      double share_sum = 0;
      double count = 0;
      for (std::int64_t t = s * here; t < (s + 1) * here; ++t) {
        share_sum += static_cast<double>(shares(t, e));
        for (std::int64_t i = 0; i < chosen.columns; ++i) count += chosen(t, i) == e ? 1 : 0;
      }
      f[e] = count * fraction;
      p[e] = share_sum * mean;
    });
  }
};

/// One token of `balance_backward`.
template <element W>
struct balance_backward {
  static constexpr std::string_view name = "balance_backward";
  static constexpr int threads = 32;
  matrix_view<W> dx;
  matrix_view<const W> shares;
  matrix_view<const double> fractions;
  std::int64_t here;
  double slope;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t t) const {
    W* to = dx.row(t);
    const W* share = shares.row(t);
    const double* f = fractions.row(t / here);
    const double mean = team.template sum<double>(
        dx.columns, [=](std::int64_t e) { return f[e] * static_cast<double>(share[e]); });
    const double by = slope;
    team.for_each(dx.columns, [=](std::int64_t e) {
      to[e] += static_cast<W>(by * static_cast<double>(share[e]) * (f[e] - mean));
    });
  }
};

}  // namespace programs

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
                programs::balance_sums<W>{fractions, means, shares, chosen, here, fraction, mean});
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
  for_each_team(dx.rows, {.elements_each = dx.columns},
                programs::balance_backward<W>{dx, shares, fractions, here, slope});
}

}  // namespace tenon::inline v0::kernel
