// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/kernel/rows/softmax.hpp"

// Cross-entropy of logits whose vocabulary may be cut: a rank holds the columns column_begin ..
// column_begin + columns - 1 of each row. The steps stand apart, so that a layer can put
// collectives between them:
//
//   cross_entropy_maximum -> all-reduce (maximum) -> cross_entropy_sums -> all-reduce (sum)
//     -> cross_entropy_loss, cross_entropy_backward
//
// Rows whose target is negative are not counted: loss 0 and gradient exactly 0. To go through the
// rows in chunks, call the steps on `rows_from` of the logits and the same parts of the spans.
namespace tenon::inline v0::kernel {

/// The statistics' element for logits of `Logits`.
template <class Logits>
using statistic = wide<std::remove_const_t<Logits>>;

namespace detail {

inline void require_length(const char* kernel, std::size_t length, std::int64_t rows) {
  require(static_cast<std::int64_t>(length) == rows || shapes_only::active(), kernel, ": ",
          static_cast<std::int64_t>(length), " numbers were given for ", rows,
          " rows; give one for each row");
}

}  // namespace detail

/// maximum[row] = the largest logit of the row that is here; -infinity where no column is here.
template <class Logits>
void cross_entropy_maximum(std::span<statistic<Logits>> maximum, matrix_view<Logits> logits) {
  using sum_type = statistic<Logits>;
  detail::require_length("cross_entropy_maximum", maximum.size(), logits.rows);
  for_each_team(logits.rows, {.elements_each = logits.columns},
                [&](host_team& team, std::int64_t row) {
                  const Logits* from = logits.row(row);
                  maximum[static_cast<std::size_t>(row)] = team.reduce(
                      logits.columns, detail::lowest<sum_type>,
                      [=](std::int64_t j) { return widen(from[j]); }, detail::larger{});
                });
}

/// With the maximum over the whole vocabulary: sum[row] = the sum of exp(logit - maximum) over the
/// columns here, target_logit[row] = the target's logit where it is here, else 0. The sums over the
/// shards are the whole vocabulary's.
template <class Logits>
void cross_entropy_sums(std::span<statistic<Logits>> sum, std::span<statistic<Logits>> target_logit,
                        matrix_view<Logits> logits, std::span<const std::int32_t> targets,
                        std::int64_t column_begin, std::span<const statistic<Logits>> maximum) {
  using sum_type = statistic<Logits>;
  detail::require_length("cross_entropy_sums", sum.size(), logits.rows);
  detail::require_length("cross_entropy_sums", target_logit.size(), logits.rows);
  detail::require_length("cross_entropy_sums", targets.size(), logits.rows);
  detail::require_length("cross_entropy_sums", maximum.size(), logits.rows);
  for_each_team(
      logits.rows, {.elements_each = logits.columns}, [&](host_team& team, std::int64_t row) {
        const auto i = static_cast<std::size_t>(row);
        const Logits* from = logits.row(row);
        const sum_type most = maximum[i];
        sum[i] = team.template sum<sum_type>(
            logits.columns, [=](std::int64_t j) { return exponential(widen(from[j]) - most); });
        const std::int64_t target = targets[i] - column_begin;
        const bool here = targets[i] >= 0 && target >= 0 && target < logits.columns;
        target_logit[i] = here ? widen(from[target]) : sum_type{0};
      });
}

/// loss[row] = log(sum) + maximum - target_logit, with the whole vocabulary's statistics.
/// S is fp64 or fp32.
template <class S>
void cross_entropy_loss(std::span<S> loss, std::span<const std::int32_t> targets,
                        input_span<S> maximum, input_span<S> sum, input_span<S> target_logit) {
  const auto rows = static_cast<std::int64_t>(targets.size());
  detail::require_length("cross_entropy_loss", loss.size(), rows);
  detail::require_length("cross_entropy_loss", maximum.size(), rows);
  detail::require_length("cross_entropy_loss", sum.size(), rows);
  detail::require_length("cross_entropy_loss", target_logit.size(), rows);
  for_each_range(
      rows, 1024, {.elements_each = 1024}, [&](host_team&, std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          // The difference first: it is exact where the logits are large.
          loss[i] = targets[i] < 0 ? S{0} : std::log(sum[i]) + (maximum[i] - target_logit[i]);
        }
      });
}

/// gradient = (softmax - one at the target) * scale, with the whole vocabulary's statistics; scale
/// has one number for each row, or one for all. The gradient may be where the logits are.
template <element T>
void cross_entropy_backward(matrix_view<T> gradient, input<T> logits,
                            std::span<const std::int32_t> targets, std::int64_t column_begin,
                            input_span<wide<T>> maximum, input_span<wide<T>> sum,
                            input_span<wide<T>> scale) {
  using sum_type = wide<T>;
  detail::require_rows("cross_entropy_backward", gradient, logits);
  detail::require_length("cross_entropy_backward", targets.size(), logits.rows);
  detail::require_length("cross_entropy_backward", maximum.size(), logits.rows);
  detail::require_length("cross_entropy_backward", sum.size(), logits.rows);
  if (scale.size() != 1) {
    detail::require_length("cross_entropy_backward", scale.size(), logits.rows);
  }
  const std::int64_t columns = logits.columns;
  for_each_team(logits.rows, {.elements_each = columns}, [&](host_team& team, std::int64_t row) {
    const auto i = static_cast<std::size_t>(row);
    T* to = gradient.row(row);
    if (targets[i] < 0) {
      team.for_each(columns, [=](std::int64_t j) { to[j] = T(sum_type{0}); });
      return;
    }
    const T* from = logits.row(row);
    const sum_type most = maximum[i];
    const sum_type upstream = scale[scale.size() == 1 ? 0 : i];
    const sum_type inverse = sum_type{1} / sum[i];
    const std::int64_t target = targets[i] - column_begin;
    const bool here = target >= 0 && target < columns;
    // The target's own entry is found from its logit before that is overwritten.
    const sum_type at_target =
        here ? exponential(widen(from[target]) - most) * inverse - sum_type{1} : sum_type{0};
    team.for_each(columns, [=](std::int64_t j) {
      to[j] = T(exponential(widen(from[j]) - most) * inverse * upstream);
    });
    if (here) to[target] = T(at_target * upstream);
  });
}

}  // namespace tenon::inline v0::kernel
