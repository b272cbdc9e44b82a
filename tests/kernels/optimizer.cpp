// SPDX-License-Identifier: Apache-2.0
#include "tenon/kernel/optimizer.hpp"

#include <limits>

#include "samples.hpp"

using namespace tenon;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

using wide_elements = std::tuple<fp64, fp32>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(adamw_agrees_with_its_formula, S, wide_elements) {
  for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 5000}) {
    auto w = samples::numbers<S>(n, "w");
    std::vector<S> m(at(n)), v(at(n));
    std::vector<bf16> copy(at(n));
    std::vector<double> w_right(w.begin(), w.end()), m_right(at(n)), v_right(at(n));
    for (std::int64_t step = 1; step <= 3; ++step) {
      const auto g = samples::numbers<S>(n, step == 1 ? "g1" : step == 2 ? "g2" : "g3");
      const kernel::adamw_numbers numbers{.learning_rate = 0.01,
                                          .first_beta = 0.9,
                                          .second_beta = 0.95,
                                          .epsilon = 1e-8,
                                          .weight_decay = 0.1,
                                          .gradient_scale = 0.5,
                                          .step = step};
      kernel::adamw(std::span(w), std::span(m), std::span(v), g, std::span(copy), numbers);
      for (std::size_t i = 0; i < at(n); ++i) {
        const double slope = 0.5 * static_cast<double>(g[i]);
        m_right[i] = 0.9 * m_right[i] + 0.1 * slope;
        v_right[i] = 0.95 * v_right[i] + 0.05 * slope * slope;
        const double power = static_cast<double>(step);
        w_right[i] -= 0.01 * (m_right[i] / (1 - std::pow(0.9, power)) /
                                  (std::sqrt(v_right[i] / (1 - std::pow(0.95, power))) + 1e-8) +
                              0.1 * w_right[i]);
      }
    }
    BOOST_TEST(samples::difference(w, w_right) <= 30 * samples::rounding<S>);
    BOOST_TEST(samples::difference(m, m_right) <= 30 * samples::rounding<S>);
    BOOST_TEST(samples::difference(v, v_right) <= 30 * samples::rounding<S>);
    for (std::size_t i = 0; i < at(n); ++i) {
      BOOST_TEST(copy[i].bits == bf16(static_cast<float>(w[i])).bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(decay_alone_shrinks_by_rate_times_decay) {
  // T-30 for one tensor: rate 0.1, decay 0.1, gradient 0, weights 1.
  std::vector<double> w{1, 1}, m{0, 0}, v{0, 0};
  const std::vector<double> g{0, 0};
  kernel::adamw(std::span(w), std::span(m), std::span(v), g,
                {.learning_rate = 0.1, .weight_decay = 0.1});
  BOOST_TEST(w[0] == 0.99, boost::test_tools::tolerance(1e-15));
  std::vector<double> undecayed{1, 1};
  kernel::adamw(std::span(undecayed), std::span(m), std::span(v), g, {.learning_rate = 0.1});
  BOOST_TEST(undecayed[1] == 1.0);
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_a_number_stays_visible) {
  std::vector<float> w{1, 1}, m{0, 0}, v{0, 0};
  const std::vector<float> g{std::nanf(""), 1e30F};
  kernel::adamw(std::span(w), std::span(m), std::span(v), g, {});
  BOOST_TEST(std::isnan(w[0]));
  BOOST_TEST(!std::isfinite(v[1]));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sums_of_squares_are_wide, T, samples::all_elements) {
  // T-04 (a): squares 256 and 1 in bf16 would stay 256.
  const std::vector<T> two{T(16.0F), T(1.0F)};
  BOOST_TEST(kernel::sum_of_squares(std::span(two)) == 257.0);
  for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 4095, 4096, 4097, 20000}) {
    const auto values = samples::numbers<T>(n, "values");
    long double right = 0;
    for (const T one : values) {
      right += static_cast<long double>(one) * static_cast<long double>(one);
    }
    const double sum = kernel::sum_of_squares(std::span(values));
    BOOST_TEST(std::abs(static_cast<long double>(sum) - right) <= 1e-14L * right);
    const samples::with_threads two_threads(2);
    BOOST_TEST(kernel::sum_of_squares(std::span(values)) == sum);
  }
}

BOOST_AUTO_TEST_CASE(squares_beyond_fp32_are_still_numbers) {
  const std::vector<float> large(100, 1e30F);
  BOOST_TEST(kernel::sum_of_squares(std::span(large)) == 1e62, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(flat_functions_agree_with_loops, T, samples::all_elements) {
  for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 9000}) {
    const auto a = samples::numbers<T>(n, "a");
    const auto b = samples::numbers<T>(n, "b");
    auto scaled = a;
    auto added = a;
    std::vector<wide<T>> widened(at(n));
    kernel::scale_by(std::span(scaled), -1.5);
    kernel::add_scaled(std::span(added), 0.75, std::span(b));
    kernel::convert(std::span(widened), std::span(a));
    std::vector<double> scaled_right, added_right;
    for (std::size_t i = 0; i < at(n); ++i) {
      scaled_right.push_back(-1.5 * static_cast<double>(a[i]));
      added_right.push_back(static_cast<double>(a[i]) + 0.75 * static_cast<double>(b[i]));
    }
    BOOST_TEST(samples::difference(scaled, scaled_right) <= samples::bar<T>);
    BOOST_TEST(samples::difference(added, added_right) <= samples::bar<T>);
    BOOST_TEST(samples::difference(widened, a) == 0.0);
    BOOST_TEST(kernel::all_finite(std::span(a)));
    for (std::size_t i = 0; i < at(n); i += at(std::max<std::int64_t>(1, n / 5))) {
      auto bad = a;
      bad[i] = T(std::nanf(""));
      BOOST_TEST(!kernel::all_finite(std::span(bad)));
      bad[i] = T(-std::numeric_limits<float>::infinity());
      BOOST_TEST(!kernel::all_finite(std::span(bad)));
    }
  }
}

BOOST_AUTO_TEST_CASE(lengths_that_differ_are_refused) {
  std::vector<float> w(3), m(3), v(3), g(4);
  BOOST_CHECK_THROW(kernel::adamw(std::span(w), std::span(m), std::span(v), g, {}), error);
  BOOST_CHECK_THROW(kernel::add_scaled(std::span(w), 1, std::span(g)), error);
  BOOST_CHECK_THROW(kernel::adamw(std::span(w), std::span(m), std::span(v), w, {.step = 0}), error);
}
