// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
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

namespace programs {

/// One row of `cross_entropy_maximum`.
template <class Logits>
struct cross_entropy_maximum {
  using W = statistic<Logits>;
  static constexpr std::string_view name = "cross_entropy_maximum";
  static constexpr int threads = 256;
  W* maximum;
  matrix_view<const Logits> logits;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const W most = team.reduce_of(
        logits.columns, detail::lowest<W>, [](W value) { return value; }, detail::larger{},
        logits.row(row));
    team.once([&] { maximum[row] = most; });
  }
};

/// One row of `cross_entropy_sums`.
template <class Logits>
struct cross_entropy_sums {
  using W = statistic<Logits>;
  static constexpr std::string_view name = "cross_entropy_sums";
  static constexpr int threads = 256;
  W* sum;
  W* target_logit;
  matrix_view<const Logits> logits;
  const std::int32_t* targets;
  std::int64_t column_begin;
  const W* maximum;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const Logits* from = logits.row(row);
    const W most = maximum[row];
    const W all = team.template sum_of<W>(
        logits.columns, [=](W value) { return exponential(value - most); }, from);
    team.once([&] {
      const std::int64_t target = targets[row] - column_begin;
      const bool here = targets[row] >= 0 && target >= 0 && target < logits.columns;
      sum[row] = all;
      target_logit[row] = here ? widen(from[target]) : W{0};
    });
  }
};

/// Rows of `cross_entropy_loss`.
template <class S>
struct cross_entropy_loss {
  static constexpr std::string_view name = "cross_entropy_loss";
  S* loss;
  const std::int32_t* targets;
  const S* maximum;
  const S* sum;
  const S* target_logit;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t begin, std::int64_t end) const {
    team.for_each(end - begin, [=, this](std::int64_t offset) {
      const std::int64_t i = begin + offset;
      // The difference first: it is exact where the logits are large.
      loss[i] = targets[i] < 0 ? S{0} : std::log(sum[i]) + (maximum[i] - target_logit[i]);
    });
  }
};

/// One row of `cross_entropy_backward`.
template <element T>
struct cross_entropy_backward {
  using W = wide<T>;
  static constexpr std::string_view name = "cross_entropy_backward";
  static constexpr int threads = 256;
  matrix_view<T> gradient;
  matrix_view<const T> logits;
  const std::int32_t* targets;
  std::int64_t column_begin;
  const W* maximum;
  const W* sum;
  const W* scales;  // of each row; null: `scale` for all
  W scale;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t row) const {
    const std::int64_t columns = logits.columns;
    T* to = gradient.row(row);
    if (targets[row] < 0) {
      team.apply(
          columns, [](W& out) { out = 0; }, only_written{to});
      return;
    }
    const T* from = logits.row(row);
    const W most = maximum[row];
    const W upstream = scales == nullptr ? scale : scales[row];
    const W inverse = W{1} / sum[row];
    const std::int64_t target = targets[row] - column_begin;
    const bool here = target >= 0 && target < columns;
    // The target's own entry is found from its logit before that is overwritten.
    const W at_target = here ? exponential(widen(from[target]) - most) * inverse - W{1} : W{0};
    team.barrier();
    team.apply(
        columns, [=](W& out, W value) { out = exponential(value - most) * inverse * upstream; },
        only_written{to}, from);
    team.barrier();
    if (here) team.once([&] { to[target] = T(at_target * upstream); });
  }
};

}  // namespace programs

/// maximum[row] = the largest logit of the row that is here; -infinity where no column is here.
template <class Logits>
void cross_entropy_maximum(std::span<statistic<Logits>> maximum, matrix_view<Logits> logits) {
  detail::require_length("cross_entropy_maximum", maximum.size(), logits.rows);
  for_each_team(
      logits.rows, {.elements_each = logits.columns},
      programs::cross_entropy_maximum<std::remove_const_t<Logits>>{maximum.data(), logits});
}

/// With the maximum over the whole vocabulary: sum[row] = the sum of exp(logit - maximum) over the
/// columns here, target_logit[row] = the target's logit where it is here, else 0. The sums over the
/// shards are the whole vocabulary's.
template <class Logits>
void cross_entropy_sums(std::span<statistic<Logits>> sum, std::span<statistic<Logits>> target_logit,
                        matrix_view<Logits> logits, std::span<const std::int32_t> targets,
                        std::int64_t column_begin, std::span<const statistic<Logits>> maximum) {
  detail::require_length("cross_entropy_sums", sum.size(), logits.rows);
  detail::require_length("cross_entropy_sums", target_logit.size(), logits.rows);
  detail::require_length("cross_entropy_sums", targets.size(), logits.rows);
  detail::require_length("cross_entropy_sums", maximum.size(), logits.rows);
  for_each_team(
      logits.rows, {.elements_each = logits.columns},
      programs::cross_entropy_sums<std::remove_const_t<Logits>>{
          sum.data(), target_logit.data(), logits, targets.data(), column_begin, maximum.data()});
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
  for_each_range(rows, 1024, {.elements_each = 1024},
                 programs::cross_entropy_loss<S>{loss.data(), targets.data(), maximum.data(),
                                                 sum.data(), target_logit.data()});
}

namespace detail {

template <element T>
void run_cross_entropy_backward(matrix_view<T> gradient, matrix_view<const T> logits,
                                std::span<const std::int32_t> targets, std::int64_t column_begin,
                                std::span<const wide<T>> maximum, std::span<const wide<T>> sum,
                                const wide<T>* scales, wide<T> scale) {
  require_rows("cross_entropy_backward", gradient, logits);
  require_length("cross_entropy_backward", targets.size(), logits.rows);
  require_length("cross_entropy_backward", maximum.size(), logits.rows);
  require_length("cross_entropy_backward", sum.size(), logits.rows);
  for_each_team(logits.rows, {.elements_each = logits.columns},
                programs::cross_entropy_backward<T>{gradient, logits, targets.data(), column_begin,
                                                    maximum.data(), sum.data(), scales, scale});
}

}  // namespace detail

/// gradient = (softmax - one at the target) * scale, with the whole vocabulary's statistics; scale
/// has one number for each row. The gradient may be where the logits are.
template <element T>
void cross_entropy_backward(matrix_view<T> gradient, input<T> logits,
                            std::span<const std::int32_t> targets, std::int64_t column_begin,
                            input_span<wide<T>> maximum, input_span<wide<T>> sum,
                            input_span<wide<T>> scale) {
  detail::require_length("cross_entropy_backward", scale.size(), logits.rows);
  detail::run_cross_entropy_backward<T>(gradient, logits, targets, column_begin, maximum, sum,
                                        scale.data(), wide<T>{0});
}

/// The same with one scale for all rows.
template <element T>
void cross_entropy_backward(matrix_view<T> gradient, input<T> logits,
                            std::span<const std::int32_t> targets, std::int64_t column_begin,
                            input_span<wide<T>> maximum, input_span<wide<T>> sum,
                            std::type_identity_t<wide<T>> scale) {
  detail::run_cross_entropy_backward<T>(gradient, logits, targets, column_begin, maximum, sum,
                                        nullptr, scale);
}

}  // namespace tenon::inline v0::kernel
