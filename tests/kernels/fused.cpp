// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "samples.hpp"
#include "tenon/kernel/fuse.hpp"

using namespace tenon;
using samples::matrix;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double gelu_by_tanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

double gelu_slope_by_tanh(double x) {
  const double root = std::sqrt(2 / 3.14159265358979323846);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

/// A functor of a user's, that also asks where it stands.
struct soft_cap {
  double limit;
  template <class V>
  V operator()(V value, kernel::position where) const {
    const V bound = static_cast<V>(limit) + static_cast<V>(where.row) +
                    static_cast<V>(where.column) / static_cast<V>(8);
    return value > bound ? bound : value;
  }
};
static_assert(kernel::elementwise<soft_cap>);
static_assert(!kernel::elementwise<int>);

constexpr std::int64_t sizes[] = {0, 1, 7, 63, 64, 65};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(a_pipeline_agrees_with_its_parts, T, samples::all_elements) {
  for (const std::int64_t rows : {0, 1, 6}) {
    for (const std::int64_t columns : sizes) {
      const matrix<T> x(rows, columns, "x", 3);
      const matrix<T> residual(rows, columns, "residual");
      const std::vector<T> bias = samples::numbers<T>(columns, "bias");
      const random_stream stream(7, "dropout", 3);
      const kernel::global_index where{5, {2}, 3, 10, 4, 100};
      for (const float p : {0.0F, 0.4F}) {
        matrix<T> y(rows, columns);
        kernel::run(kernel::read{x.view()} | kernel::add{kernel::per_column{std::span(bias)}} |
                    kernel::gelu{} | kernel::dropout{p, stream, where} |
                    kernel::add{kernel::read{residual.view()}} | kernel::write{y.view()});
        matrix<fp64> right(rows, columns);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            // Rows are 2 sequences of 3; global sequences are 10 long and 100 wide.
            const std::int64_t index = ((5 + i / 3) * 10 + 2 + i % 3) * 100 + 4 + j;
            const bool kept = stream.uniform(index) >= p;
            const double value = gelu_by_tanh(x.at(i, j) + static_cast<double>(bias[at(j)]));
            right(i, j) = (kept ? value / (1 - double{p}) : 0) + residual.at(i, j);
          }
        }
        BOOST_TEST(samples::difference(y, right) <= samples::bar<T>);
        BOOST_TEST(y.gaps_untouched());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(functors_agree_with_their_formulas, T, samples::all_elements) {
  const std::int64_t rows = 5;
  const std::int64_t columns = 65;
  const matrix<T> a(rows, columns, "a", 4);
  const matrix<T> b(rows, columns, "b", 2);
  const matrix<T> dy(rows, columns, "dy");
  const std::vector<T> row_factor = samples::numbers<T>(rows, "rows");
  const auto check = [&](auto pipe, auto formula) {
    matrix<T> y(rows, columns);
    kernel::run(pipe | kernel::write{y.view()});
    matrix<fp64> right(rows, columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) right(i, j) = formula(i, j);
    }
    BOOST_TEST(samples::difference(y, right) <= samples::bar<T>);
  };
  using kernel::read;
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto silu_slope = [](double x) {
    const double share = 1 / (1 + std::exp(-x));
    return share * (1 + x * (1 - share));
  };
  check(read{a.view()} | kernel::scale{-0.5}, [&](auto i, auto j) { return -0.5 * a.at(i, j); });
  check(read{a.view()} | kernel::silu{}, [&](auto i, auto j) { return silu(a.at(i, j)); });
  check(read{a.view()} | kernel::multiply{read{b.view()}},
        [&](auto i, auto j) { return a.at(i, j) * b.at(i, j); });
  check(read{a.view()} | kernel::multiply{kernel::per_row{std::span(row_factor)}},
        [&](auto i, auto j) { return a.at(i, j) * static_cast<double>(row_factor[at(i)]); });
  check(read{a.view()} | kernel::swiglu{read{b.view()}},
        [&](auto i, auto j) { return silu(a.at(i, j)) * b.at(i, j); });
  check(read{dy.view()} | kernel::gelu_backward{read{a.view()}},
        [&](auto i, auto j) { return dy.at(i, j) * gelu_slope_by_tanh(a.at(i, j)); });
  check(read{dy.view()} | kernel::silu_backward{read{a.view()}},
        [&](auto i, auto j) { return dy.at(i, j) * silu_slope(a.at(i, j)); });
  check(read{a.view()} | soft_cap{-2}, [&](auto i, auto j) {
    return std::min(a.at(i, j), -2 + static_cast<double>(i) + static_cast<double>(j) / 8);
  });

  // Two results, in place over the operands.
  matrix<T> gate = a;
  matrix<T> up = b;
  kernel::run(read{dy.view()} | kernel::swiglu_backward{read{gate.view()}, read{up.view()},
                                                        kernel::write{gate.view()},
                                                        kernel::write{up.view()}});
  matrix<fp64> gate_right(rows, columns);
  matrix<fp64> up_right(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      gate_right(i, j) = dy.at(i, j) * b.at(i, j) * silu_slope(a.at(i, j));
      up_right(i, j) = dy.at(i, j) * silu(a.at(i, j));
    }
  }
  BOOST_TEST(samples::difference(gate, gate_right) <= samples::bar<T>);
  BOOST_TEST(samples::difference(up, up_right) <= samples::bar<T>);

  // Added to what is there, in the wide element.
  matrix<wide<T>> sum(rows, columns, "sum");
  const matrix<wide<T>> before = sum;
  kernel::run(read{a.view()} | kernel::accumulate{sum.view()});
  BOOST_TEST(sum.at(2, 3) ==
             static_cast<double>(static_cast<wide<T>>(before.at(2, 3) + a.at(2, 3))));
  BOOST_TEST(sum.gaps_untouched());
}

BOOST_AUTO_TEST_CASE(elements_are_converted) {
  const matrix<fp64> x(3, 65, "x", 100);
  matrix<bf16> low(3, 65);
  matrix<fp32> back(3, 65);
  kernel::convert(low.view(), x.view());
  kernel::convert(back.view(), low.view());
  BOOST_TEST(samples::difference(back, x) <= samples::rounding<bf16>);
}

BOOST_AUTO_TEST_CASE(gelu_backward_passes_infinite_gradients) {
  matrix<fp32> dy(1, 2);
  dy(0, 0) = std::numeric_limits<float>::infinity();
  dy(0, 1) = std::nanf("");
  const matrix<fp32> x(1, 2, "x");
  kernel::run(kernel::read{dy.view()} | kernel::gelu_backward{kernel::read{x.view()}} |
              kernel::write{dy.view()});
  BOOST_TEST(!std::isfinite(dy(0, 0)));
  BOOST_TEST(std::isnan(dy(0, 1)));
}

BOOST_AUTO_TEST_CASE(roles_of_different_sizes_are_refused) {
  matrix<fp32> x(3, 4, "x");
  matrix<fp32> y(3, 5);
  std::vector<float> bias(5);
  BOOST_CHECK_THROW(kernel::run(kernel::read{x.view()} | kernel::write{y.view()}), error);
  BOOST_CHECK_THROW(
      kernel::run(kernel::read{x.view()} | kernel::add{kernel::per_column{std::span(bias)}} |
                  kernel::write{x.view()}),
      error);
  BOOST_CHECK_THROW(
      kernel::run(kernel::read{x.view()} | kernel::dropout{1.0F, {}, {}} | kernel::write{x.view()}),
      error);
}
