// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"
#include "tenon/kernel/rows/layer_norm.hpp"
#include "tenon/kernel/rows/rms_norm.hpp"
#include "tenon/kernel/rows/softmax.hpp"

using namespace tenon;
using kernel::output;
using samples::matrix;

namespace {

template <class T>
std::span<T> all(std::vector<T>& values) {
  return values;
}
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A norm's forward and backward with all that they write.
template <class T>
struct norm_run {
  norm_run(std::int64_t rows, std::int64_t columns)
      : y(rows, columns),
        dx(rows, columns, "start"),
        mean(at(rows)),
        inverse(at(rows)),
        gain_gradient(samples::numbers<wide<T>>(columns, "gain start")),
        bias_gradient(samples::numbers<wide<T>>(columns, "bias start")) {}
  matrix<T> y, dx;
  std::vector<wide<T>> mean, inverse, gain_gradient, bias_gradient;
};

template <class T>
struct norm_operands {
  norm_operands(std::int64_t rows, std::int64_t columns)
      : x(rows, columns, "x", 3),
        dy(rows, columns, "dy"),
        gain(samples::numbers<T>(columns, "gain", 2)),
        bias(samples::numbers<T>(columns, "bias")) {}
  matrix<T> x, dy;
  std::vector<T> gain, bias;
};

template <class T>
norm_run<T> layer_norm_of(const norm_operands<T>& in, output how) {
  norm_run<T> r(in.x.rows, in.x.columns);
  kernel::layer_norm(r.y.view(), all(r.mean), all(r.inverse), in.x.view(), in.gain, in.bias);
  kernel::layer_norm_backward(r.dx.view(), all(r.gain_gradient), all(r.bias_gradient), in.dy.view(),
                              in.x.view(), in.gain, r.mean, r.inverse, how);
  return r;
}
template <class T>
norm_run<T> rms_norm_of(const norm_operands<T>& in, output how) {
  norm_run<T> r(in.x.rows, in.x.columns);
  kernel::rms_norm(r.y.view(), all(r.inverse), in.x.view(), in.gain);
  kernel::rms_norm_backward(r.dx.view(), all(r.gain_gradient), in.dy.view(), in.x.view(), in.gain,
                            r.inverse, how);
  return r;
}

/// Both norms as they are defined, in fp64 and with the gradients from the full derivative of a
/// row: dx_j = sum over i of dy_i gain_i d(normal_i)/dx_j.
norm_run<fp64> by_definition(const norm_operands<fp64>& in, output how, bool centred) {
  const std::int64_t n = in.x.columns;
  norm_run<fp64> r(in.x.rows, n);
  for (std::int64_t row = 0; row < in.x.rows; ++row) {
    double middle = 0;
    for (std::int64_t j = 0; j < n && centred; ++j) middle += in.x.at(row, j);
    middle /= static_cast<double>(n);
    double square = 0;
    for (std::int64_t j = 0; j < n; ++j) square += std::pow(in.x.at(row, j) - middle, 2);
    const double inverse = 1 / std::sqrt(square / static_cast<double>(n) + 1e-5);
    for (std::int64_t j = 0; j < n; ++j) {
      const double normal = (in.x.at(row, j) - middle) * inverse;
      r.y(row, j) = normal * in.gain[at(j)] + (centred ? in.bias[at(j)] : 0);
      r.gain_gradient[at(j)] += in.dy.at(row, j) * normal;
      r.bias_gradient[at(j)] += in.dy.at(row, j);
      double slope = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double other = (in.x.at(row, i) - middle) * inverse;
        const double mixed = (i == j ? 1.0 : 0.0) - (centred ? 1.0 / static_cast<double>(n) : 0.0) -
                             other * normal / static_cast<double>(n);
        slope += in.dy.at(row, i) * in.gain[at(i)] * inverse * mixed;
      }
      r.dx(row, j) = slope + (how == output::accumulate ? r.dx.at(row, j) : 0);
    }
  }
  return r;
}

template <class T>
void check_norm(const norm_run<T>& got, const norm_run<fp64>& right, bool centred) {
  BOOST_TEST_CONTEXT(got.y.rows << " x " << got.y.columns << " centred " << centred) {
    // The sums over rows keep the wide element: their bar is its own.
    const double sums_bar = 300 * samples::rounding<wide<T>>;
    BOOST_TEST(samples::difference(got.y, right.y) <= samples::bar<T>);
    BOOST_TEST(samples::difference(got.dx, right.dx) <= samples::bar<T>);
    BOOST_TEST(samples::difference(got.gain_gradient, right.gain_gradient) <= sums_bar);
    if (centred) {
      BOOST_TEST(samples::difference(got.bias_gradient, right.bias_gradient) <= sums_bar);
    }
    BOOST_TEST((got.y.gaps_untouched() && got.dx.gaps_untouched()));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(norms_agree_with_their_definitions, T, samples::all_elements) {
  for (const std::int64_t rows : {0, 1, 7, 65, 150}) {
    for (const std::int64_t columns : {7, 63, 64, 65}) {
      for (const output how : {output::overwrite, output::accumulate}) {
        const norm_operands<T> in(rows, columns);
        const norm_operands<fp64> exact(rows, columns);
        check_norm(layer_norm_of(in, how), by_definition(exact, how, true), true);
        check_norm(rms_norm_of(in, how), by_definition(exact, how, false), false);
      }
    }
  }
  // A row of one number has no deviation: y is the bias, and nothing flows back.
  const norm_operands<T> one(3, 1);
  const norm_run<T> r = layer_norm_of(one, output::overwrite);
  for (std::int64_t row = 0; row < 3; ++row) {
    BOOST_TEST(r.y.at(row, 0) == static_cast<double>(one.bias[0]));
    BOOST_TEST(r.dx.at(row, 0) == 0.0);
  }
  layer_norm_of(norm_operands<T>(3, 0), output::overwrite);
  rms_norm_of(norm_operands<T>(3, 0), output::overwrite);
}

BOOST_AUTO_TEST_CASE(norms_agree_with_differences) {
  norm_operands<fp64> in(3, 9);
  const auto layer_value = [&] {
    return samples::weighted(layer_norm_of(in, output::overwrite).y, in.dy);
  };
  const auto rms_value = [&] {
    return samples::weighted(rms_norm_of(in, output::overwrite).y, in.dy);
  };
  const norm_run<fp64> layer = layer_norm_of(in, output::overwrite);
  const norm_run<fp64> rms = rms_norm_of(in, output::overwrite);
  BOOST_TEST(samples::difference(layer.dx, samples::slopes(in.x, layer_value)) < 1e-7);
  BOOST_TEST(samples::difference(rms.dx, samples::slopes(in.x, rms_value)) < 1e-7);
}

BOOST_AUTO_TEST_CASE(norms_with_large_numbers_keep_their_deviation) {
  // A mean of 10000 and a deviation of about 1: mean(x^2) - mean^2 would lose it all in fp32.
  matrix<fp32> x(1, 64);
  for (std::int64_t j = 0; j < 64; ++j) x(0, j) = 10000.0F + static_cast<float>(j % 2);
  matrix<fp32> y(1, 64);
  std::vector<float> mean(1), inverse(1), gain(64, 1.0F), bias(64, 0.0F);
  kernel::layer_norm(y.view(), all(mean), all(inverse), x.view(), gain, bias);
  BOOST_TEST(mean[0] == 10000.5F);
  BOOST_TEST(std::abs(y(0, 1) - 1.0F) < 1e-4F);
  BOOST_TEST(std::abs(y(0, 0) + 1.0F) < 1e-4F);
}

BOOST_AUTO_TEST_CASE(gain_gradient_of_four_tokens) {
  // The sums over tokens of the numbers that meet the gain: 16 and 20 (rows 1,2 to 7,8, each with
  // its root taken out by an inverse of 1).
  matrix<fp64> x(4, 2);
  matrix<fp64> dy(4, 2);
  for (std::int64_t i = 0; i < 8; ++i) {
    x(i / 2, i % 2) = static_cast<double>(i + 1);
    dy(i / 2, i % 2) = 1;
  }
  matrix<fp64> dx(4, 2);
  const std::vector<double> gain{1, 1}, inverse{1, 1, 1, 1};
  std::vector<double> sums{0, 0};
  kernel::rms_norm_backward(dx.view(), all(sums), dy.view(), x.view(), gain, inverse);
  BOOST_TEST(sums[0] == 16.0);
  BOOST_TEST(sums[1] == 20.0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(softmax_agrees_with_its_definition, T, samples::all_elements) {
  for (const std::int64_t rows : {0, 1, 7}) {
    for (const std::int64_t columns : {0, 1, 7, 63, 64, 65, 257}) {
      const matrix<T> x(rows, columns, "x", 5);
      const matrix<T> dy(rows, columns, "dy");
      matrix<T> y(rows, columns);
      matrix<T> dx(rows, columns);
      kernel::softmax(y.view(), x.view());
      kernel::softmax_backward(dx.view(), dy.view(), y.view());
      matrix<fp64> right(rows, columns);
      matrix<fp64> slope(rows, columns);
      for (std::int64_t i = 0; i < rows; ++i) {
        double total = 0;
        double mean = 0;
        for (std::int64_t j = 0; j < columns; ++j) total += std::exp(x.at(i, j));
        for (std::int64_t j = 0; j < columns; ++j) right(i, j) = std::exp(x.at(i, j)) / total;
        for (std::int64_t j = 0; j < columns; ++j) mean += right(i, j) * dy.at(i, j);
        for (std::int64_t j = 0; j < columns; ++j) {
          slope(i, j) = right(i, j) * (dy.at(i, j) - mean);
        }
      }
      BOOST_TEST(samples::difference(y, right) <= samples::bar<T>);
      // The backward starts from the rounded y.
      BOOST_TEST(samples::difference(dx, slope) <= 3 * samples::bar<T>);
      BOOST_TEST((y.gaps_untouched() && dx.gaps_untouched()));
    }
  }
}

BOOST_AUTO_TEST_CASE(softmax_agrees_with_differences) {
  matrix<fp64> x(3, 8, "x", 2);
  const matrix<fp64> dy(3, 8, "dy");
  const auto forward = [&] {
    matrix<fp64> y(3, 8);
    kernel::softmax(y.view(), x.view());
    return y;
  };
  matrix<fp64> dx(3, 8);
  kernel::softmax_backward(dx.view(), dy.view(), forward().view());
  const auto right = samples::slopes(x, [&] { return samples::weighted(forward(), dy); });
  BOOST_TEST(samples::difference(dx, right) < samples::slope_bar);
}

BOOST_AUTO_TEST_CASE(softmax_of_extreme_numbers) {
  matrix<fp32> x(1, 3);
  x(0, 0) = 3e38F;
  x(0, 1) = -3e38F;
  x(0, 2) = 3e38F;
  matrix<fp32> y(1, 3);
  kernel::softmax(y.view(), x.view());
  BOOST_TEST((y(0, 0) == 0.5F && y(0, 1) == 0.0F && y(0, 2) == 0.5F));
  x(0, 1) = std::nanf("");
  kernel::softmax(y.view(), x.view());
  BOOST_TEST(std::isnan(y(0, 0)));  // what is not a number must be seen
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_change_nothing, T, samples::all_elements) {
  const norm_operands<T> in(300, 100);
  const auto layer = layer_norm_of(in, output::accumulate);
  const auto rms = rms_norm_of(in, output::accumulate);
  const samples::with_threads two(2);
  const auto layer_again = layer_norm_of(in, output::accumulate);
  const auto rms_again = rms_norm_of(in, output::accumulate);
  BOOST_TEST((layer.y.same_as(layer_again.y) && layer.dx.same_as(layer_again.dx)));
  BOOST_TEST((rms.y.same_as(rms_again.y) && rms.dx.same_as(rms_again.dx)));
  BOOST_TEST((layer.gain_gradient == layer_again.gain_gradient &&
              layer.bias_gradient == layer_again.bias_gradient &&
              rms.gain_gradient == rms_again.gain_gradient));
}
