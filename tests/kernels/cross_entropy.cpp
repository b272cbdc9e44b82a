// SPDX-License-Identifier: Apache-2.0
#include "tenon/kernel/rows/cross_entropy.hpp"

#include <limits>

#include "samples.hpp"

using namespace tenon;
using samples::matrix;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
struct outcome {
  std::vector<wide<T>> loss;
  matrix<T> gradient;
};

/// All steps over the vocabulary cut at `cuts`, with plain sums and maxima for the collectives, in
/// chunks of `chunk` rows.
template <class T>
outcome<T> in_shards(const matrix<T>& logits, const std::vector<std::int32_t>& targets,
                     std::vector<std::int64_t> cuts, double scale, std::int64_t chunk = 1000) {
  using W = wide<T>;
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(logits.columns);
  outcome<T> r{std::vector<W>(at(logits.rows)), logits};
  for (std::int64_t first = 0; first < logits.rows; first += chunk) {
    const std::int64_t rows = std::min(chunk, logits.rows - first);
    const std::span<const std::int32_t> words(targets.data() + first, at(rows));
    std::vector<W> maximum(at(rows), -std::numeric_limits<W>::infinity());
    std::vector<W> sum(at(rows), W{0}), target_logit(at(rows), W{0});
    std::vector<W> part(at(rows)), target_part(at(rows));
    const auto shard = [&](std::size_t s) {
      return r.gradient.view().rows_from(first, rows).columns_from(cuts[s], cuts[s + 1] - cuts[s]);
    };
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      kernel::cross_entropy_maximum(std::span<W>(part), shard(s));
      for (std::size_t i = 0; i < part.size(); ++i) maximum[i] = std::max(maximum[i], part[i]);
    }
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      kernel::cross_entropy_sums(std::span<W>(part), std::span<W>(target_part), shard(s), words,
                                 cuts[s], std::span<const W>(maximum));
      for (std::size_t i = 0; i < part.size(); ++i) {
        sum[i] += part[i];
        target_logit[i] += target_part[i];
      }
    }
    kernel::cross_entropy_loss(std::span<W>(r.loss).subspan(at(first), at(rows)), words, maximum,
                               sum, target_logit);
    const std::vector<W> factor{static_cast<W>(scale)};
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      kernel::cross_entropy_backward(shard(s), shard(s), words, cuts[s], maximum, sum, factor[0]);
    }
  }
  return r;
}

outcome<fp64> by_definition(const matrix<fp64>& logits, const std::vector<std::int32_t>& targets,
                            double scale) {
  outcome<fp64> r{std::vector<double>(at(logits.rows)), matrix<fp64>(logits.rows, logits.columns)};
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const std::int32_t target = targets[at(i)];
    if (target < 0) continue;
    double total = 0;
    for (std::int64_t j = 0; j < logits.columns; ++j) {
      total += std::exp(logits.at(i, j) - logits.at(i, target));
    }
    r.loss[at(i)] = std::log(total);
    for (std::int64_t j = 0; j < logits.columns; ++j) {
      r.gradient(i, j) = scale * (std::exp(logits.at(i, j) - logits.at(i, target)) / total -
                                  (j == target ? 1.0 : 0.0));
    }
  }
  return r;
}

std::vector<std::int32_t> some_targets(std::int64_t rows, std::int64_t words) {
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(i % 5 == 3 ? -1 : static_cast<std::int32_t>(i * 7 % words));
  }
  return targets;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(losses_agree_with_the_definition, T, samples::all_elements) {
  for (const std::int64_t rows : {0, 1, 7, 33}) {
    for (const std::int64_t words : {1, 7, 63, 64, 65, 257}) {
      const auto targets = some_targets(rows, words);
      const matrix<T> logits(rows, words, "logits", 4);
      const auto right = by_definition(matrix<fp64>(rows, words, "logits", 4), targets, 0.25);
      // Whole, in two shards, in shards of which two are empty, and in chunks of rows.
      for (const auto& cuts : std::vector<std::vector<std::int64_t>>{
               {}, {words / 2}, {0, words / 3, words / 3, words}}) {
        for (const std::int64_t chunk : {1000, 4}) {
          const auto got = in_shards(logits, targets, cuts, 0.25, chunk);
          BOOST_TEST(samples::difference(got.loss, right.loss) <= 200 * samples::rounding<wide<T>>);
          BOOST_TEST(samples::difference(got.gradient, right.gradient) <= samples::bar<T>);
          BOOST_TEST(got.gradient.gaps_untouched());
          for (std::int64_t i = 3; i < rows; i += 5) {
            BOOST_TEST(got.loss[at(i)] == 0);
            for (std::int64_t j = 0; j < words; ++j) BOOST_TEST(got.gradient.at(i, j) == 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_agrees_with_differences) {
  matrix<fp64> logits(4, 9, "logits", 3);
  const std::vector<std::int32_t> targets{0, 8, -1, 4};
  const auto got = in_shards(logits, targets, {5}, 1);
  const auto right = samples::slopes(logits, [&] {
    double sum = 0;
    for (const double one : in_shards(logits, targets, {5}, 1).loss) sum += one;
    return sum;
  });
  BOOST_TEST(samples::difference(got.gradient, right) < samples::slope_bar);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(extreme_logits, T, samples::all_elements) {
  // T-13: shards (1000, 0) and (999, -1000), target 0, then 3; bf16 has no 999.
  const bool low = std::is_same_v<T, bf16>;
  matrix<T> logits(2, 4);
  for (std::int64_t i = 0; i < 2; ++i) {
    logits(i, 0) = T(1000.0F);
    logits(i, 1) = T(0.0F);
    logits(i, 2) = T(low ? 996.0F : 999.0F);
    logits(i, 3) = T(-1000.0F);
  }
  const auto got = in_shards(logits, {0, 3}, {2}, 1);
  const double first = low ? 0.0181499 : 0.3132617;
  const double half_unit = std::is_same_v<T, fp64> ? 0 : 2.0e3 * 0x1p-24;
  BOOST_TEST(std::abs(static_cast<double>(got.loss[0]) - first) < 1e-7);
  BOOST_TEST(std::abs(static_cast<double>(got.loss[1]) - (2000 + first)) < 1e-7 + half_unit);
  for (std::int64_t i = 0; i < 2; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < 4; ++j) sum += got.gradient.at(i, j);
    // The entries are at most 1: the sum is 0 to their rounding.
    BOOST_TEST(std::abs(sum) <= 4 * samples::rounding<T>);
  }
}

BOOST_AUTO_TEST_CASE(equal_logits_give_the_logarithm_of_the_number_of_words) {
  // T-11: 7 words, none of padding.
  const matrix<fp64> logits(1, 7);
  for (const auto& cuts : std::vector<std::vector<std::int64_t>>{{4}, {3, 5}}) {
    BOOST_TEST(std::abs(in_shards(logits, {2}, cuts, 1).loss[0] - 1.945910149055313) < 1e-15);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_a_number_stays_visible) {
  matrix<fp32> logits(1, 5, "logits");
  logits(0, 2) = std::nanf("");
  BOOST_TEST(std::isnan(in_shards(logits, {1}, {}, 1).loss[0]));
}

BOOST_AUTO_TEST_CASE(each_row_may_have_a_scale) {
  const matrix<fp64> logits(3, 6, "logits", 2);
  const std::vector<std::int32_t> targets{1, 5, 0};
  const auto plain = by_definition(logits, targets, 1);
  std::vector<double> maximum(3), sum(3), target_logit(3);
  kernel::cross_entropy_maximum(std::span<double>(maximum), logits.view());
  kernel::cross_entropy_sums(std::span<double>(sum), std::span<double>(target_logit), logits.view(),
                             targets, 0, maximum);
  matrix<fp64> gradient(3, 6);
  const std::vector<double> scale{1, 0, -2};
  kernel::cross_entropy_backward(gradient.view(), logits.view(), targets, 0, maximum, sum, scale);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) {
      BOOST_TEST(std::abs(gradient.at(i, j) - scale[at(i)] * plain.gradient.at(i, j)) < 1e-14);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_change_nothing, T, samples::all_elements) {
  const matrix<T> logits(300, 257, "logits", 4);
  const auto targets = some_targets(300, 257);
  const auto one = in_shards(logits, targets, {100}, 1);
  const samples::with_threads two(2);
  const auto other = in_shards(logits, targets, {100}, 1);
  BOOST_TEST((one.loss == other.loss && one.gradient.same_as(other.gradient)));
}
