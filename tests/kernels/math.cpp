// SPDX-License-Identifier: Apache-2.0
#include "tenon/kernel/math.hpp"

#include <limits>

#include "samples.hpp"

using namespace tenon;

namespace {

/// How many units in the last place `got` is from the true value.
template <class T>
double units_off(T got, long double right) {
  const auto nearest = static_cast<T>(right);
  const T step =
      std::nextafter(std::abs(nearest), std::numeric_limits<T>::infinity()) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(got) - right) /
                             static_cast<long double>(step));
}

template <class T, class F, class G>
double worst_units(T from, T to, int count, F&& f, G&& right) {
  double worst = 0;
  for (int i = 0; i <= count; ++i) {
    const T x = from + (to - from) * (static_cast<T>(i) / static_cast<T>(count));
    worst = std::max(worst, units_off(f(x), right(static_cast<long double>(x))));
  }
  return worst;
}

using both = std::tuple<fp32, fp64>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(exponential_is_right_to_the_last_places, T, both) {
  const T from = sizeof(T) == 4 ? T(-87) : T(-708);
  const T to = sizeof(T) == 4 ? T(88.7) : T(709.7);
  const auto f = [](T x) { return kernel::exponential(x); };
  const auto right = [](long double x) { return std::exp(x); };
  BOOST_TEST(worst_units<T>(from, to, 300'000, f, right) < 1.5);
  BOOST_TEST(worst_units<T>(T(-1), T(1), 300'000, f, right) < 1.5);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(exponential_keeps_what_is_not_a_number_visible, T, both) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  BOOST_TEST(std::isnan(kernel::exponential(std::numeric_limits<T>::quiet_NaN())));
  BOOST_TEST(std::isnan(kernel::exponential(-std::numeric_limits<T>::quiet_NaN())));
  BOOST_TEST(kernel::exponential(infinity) == infinity);
  BOOST_TEST(kernel::exponential(T(1e30)) == infinity);
  BOOST_TEST(kernel::exponential(-infinity) == T(0));
  BOOST_TEST(kernel::exponential(T(-1e30)) == T(0));
  BOOST_TEST(kernel::exponential(T(0)) == T(1));
  // Below the normal numbers the result is still right to a few of their steps.
  const T small = sizeof(T) == 4 ? T(-95) : T(-720);
  BOOST_TEST(std::abs(kernel::exponential(small) - std::exp(small)) <=
             2 * std::numeric_limits<T>::denorm_min());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sigmoid_and_tanh_are_right_to_the_last_places, T, both) {
  const auto sigmoid_right = [](long double x) { return 1 / (1 + std::exp(-x)); };
  BOOST_TEST(worst_units<T>(
                 T(-80), T(80), 300'000, [](T x) { return kernel::sigmoid(x); }, sigmoid_right) <
             3.0);
  const auto tanh_of = [](T x) { return kernel::hyperbolic_tangent(x); };
  const auto tanh_right = [](long double x) { return std::tanh(x); };
  BOOST_TEST(worst_units<T>(T(-20), T(20), 300'000, tanh_of, tanh_right) < 3.0);
  BOOST_TEST(worst_units<T>(T(-0.7), T(0.7), 300'000, tanh_of, tanh_right) < 3.0);
  BOOST_TEST(std::isnan(kernel::hyperbolic_tangent(std::numeric_limits<T>::quiet_NaN())));
  BOOST_TEST(kernel::hyperbolic_tangent(std::numeric_limits<T>::infinity()) == T(1));
  BOOST_TEST(kernel::hyperbolic_tangent(-std::numeric_limits<T>::infinity()) == T(-1));
  BOOST_TEST(kernel::sigmoid(-std::numeric_limits<T>::infinity()) == T(0));
  BOOST_TEST(kernel::sigmoid(std::numeric_limits<T>::infinity()) == T(1));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(square_root_is_right_to_the_last_places, T, both) {
  const auto f = [](T x) { return kernel::square_root(x); };
  const auto right = [](long double x) { return std::sqrt(x); };
  const double units = sizeof(T) == 4 ? 1.0 : 2.0;
  BOOST_TEST(worst_units<T>(T(0), T(4), 300'000, f, right) < units);
  BOOST_TEST(worst_units<T>(T(1e-35), T(1e-30), 100'000, f, right) < units);
  BOOST_TEST(worst_units<T>(T(1e30), T(3e38), 100'000, f, right) < units);
  BOOST_TEST(f(T(0)) == T(0));
  BOOST_TEST(std::isnan(f(std::numeric_limits<T>::quiet_NaN())));
  BOOST_TEST(!std::isfinite(f(std::numeric_limits<T>::infinity())));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gelu_and_silu_agree_with_their_formulas, T, both) {
  double worst = 0;
  for (int i = -2000; i <= 2000; ++i) {
    const T x = static_cast<T>(i) / T(100);
    const auto wide_x = static_cast<double>(x);
    const double u =
        std::sqrt(2 / 3.14159265358979323846) * (wide_x + 0.044715 * wide_x * wide_x * wide_x);
    const double right = 0.5 * wide_x * (1 + std::tanh(u));
    worst = std::max(worst, std::abs(static_cast<double>(kernel::gelu_value(x)) - right) /
                                std::max(1.0, std::abs(wide_x)));
    const double silu = wide_x / (1 + std::exp(-wide_x));
    worst = std::max(worst, std::abs(static_cast<double>(kernel::silu_value(x)) - silu) /
                                std::max(1.0, std::abs(wide_x)));
  }
  BOOST_TEST(worst < 8 * samples::rounding<T>);
}

BOOST_AUTO_TEST_CASE(slopes_agree_with_differences) {
  for (int i = -1200; i <= 1200; ++i) {
    const double x = i / 100.0;
    const double step = 1e-5;
    const auto slope = [&](auto f) { return (f(x + step) - f(x - step)) / (2 * step); };
    BOOST_TEST(std::abs(kernel::gelu_slope(x) -
                        slope([](double v) { return kernel::gelu_value(v); })) < 1e-9);
    BOOST_TEST(std::abs(kernel::silu_slope(x) -
                        slope([](double v) { return kernel::silu_value(v); })) < 1e-9);
  }
  BOOST_TEST(kernel::gelu_slope(1e30F) == 1.0F);
  BOOST_TEST(kernel::gelu_slope(-1e30F) == 0.0F);
}
