// SPDX-License-Identifier: Apache-2.0
// Flat arrays and the optimizer's step on a device against the host's.
#include <limits>

#include "both.hpp"
#include "tenon/kernel/programs.hpp"

using namespace tenon;
using namespace both;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
void enter() {
  kernel::enter_emulated_programs(kernel::flat_programs<T>{});
  kernel::enter_emulated_programs(kernel::optimizer_programs<T>{});
  kernel::enter_emulated_programs(kernel::plain_programs{});
}

using wide_elements = std::tuple<fp64, fp32>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(arrays_on_a_device, T, samples::all_elements) {
  enter<T>();
  using W = wide<T>;
  for (const std::int64_t n : {0, 1, 7, 64, 4096, 5003}) {
    auto values = samples::numbers<W>(n, "w");
    auto terms = samples::numbers<W>(n, "terms");
    std::vector<T> narrow(at(n));
    const on_emulated device(all_orders[n % 3]);
    numbers<W> d_values(values), d_terms(terms);
    numbers<T> d_narrow(n);
    const auto all = [](std::span<W> a, std::span<W> b, std::span<T> c) {
      kernel::scale_by(a, -1.5);
      kernel::add_scaled(a, 0.75, b);
      kernel::convert(c, std::span<const W>(a));
      kernel::add_scaled(c, 2, std::span<const T>(c));
      kernel::convert(b, c);
    };
    all(d_values.span(), d_terms.span(), d_narrow.span());
    const double squares = kernel::sum_of_squares(d_values.span());
    BOOST_TEST(kernel::all_finite(d_narrow.span()));
    {
      const computes_on host(nullptr);
      all(values, terms, narrow);
      BOOST_TEST(squares == kernel::sum_of_squares(std::span(values)),
                 boost::test_tools::tolerance(1e-14));
    }
    BOOST_TEST((d_values.back() == values));
    BOOST_TEST((d_terms.back() == terms));
    BOOST_TEST((d_narrow.back() == narrow));
    if (n == 0) continue;
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      narrow[at(n - 1)] = T(bad);
      numbers<T> wrong(narrow);
      BOOST_TEST(!kernel::all_finite(wrong.span()));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(one_tensor_steps_on_a_device, S, wide_elements) {
  enter<S>();
  for (const std::int64_t n : {1, 63, 4096, 5003}) {
    for (const bool copies : {false, true}) {
      auto w = samples::numbers<S>(n, "w");
      std::vector<S> m(at(n)), v(at(n));
      const auto g = samples::numbers<S>(n, "g");
      std::vector<bf16> copy(at(copies ? n : 0));
      const on_emulated device;
      numbers<S> dw(w), dm(m), dv(v), dg(g);
      numbers<bf16> d_copy(copy);
      for (std::int64_t step = 1; step <= 2; ++step) {
        const kernel::adamw_numbers how{
            .learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .step = step};
        kernel::adamw(dw.span(), dm.span(), dv.span(), dg.span(), d_copy.span(), how);
        const computes_on host(nullptr);
        kernel::adamw(std::span(w), std::span(m), std::span(v), g, std::span(copy), how);
      }
      BOOST_TEST((dw.back() == w));
      BOOST_TEST((dm.back() == m));
      BOOST_TEST((dv.back() == v));
      for (std::size_t i = 0; i < copy.size(); ++i) {
        BOOST_TEST(d_copy.back()[i].bits == copy[i].bits);
      }
    }
  }
}

// A step as a device runs it: the norm, what clips it, and all tensors at once, with nothing that
// the host reads in between; against the kernels of single tensors on the host.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_step_stays_on_its_device, S, wide_elements) {
  enter<S>();
  const std::vector<std::int64_t> lengths{1, 4096, 0, 4097, 130, 9000};
  const auto runs = [&](bool on_device) {
    const on_emulated emulated;
    const computes_on here(on_device ? device::of_this_rank() : nullptr);
    std::vector<numbers<S>> w, m, v, g;
    std::vector<numbers<bf16>> copies;
    std::vector<kernel::adamw_tensor<S>> tensors;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      w.emplace_back(samples::numbers<S>(lengths[i], "w"));
      m.emplace_back(std::vector<S>(at(lengths[i])));
      v.emplace_back(std::vector<S>(at(lengths[i])));
      g.emplace_back(samples::numbers<S>(lengths[i], "g"));
      copies.emplace_back(lengths[i]);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      tensors.push_back({.weights = w[i].span().data(),
                         .first = m[i].span().data(),
                         .second = v[i].span().data(),
                         .gradient = g[i].span().data(),
                         .copy = i % 2 == 0 ? copies[i].span().data() : nullptr,
                         .length = lengths[i],
                         .weight_decay = i % 3 == 0 ? 0.1 : 0,
                         .counted = i != 3});
    }
    kernel::adamw_tensors<S> all(tensors);
    const std::vector<double> half{0.5};
    numbers<double> factor(half);
    numbers<double> squares(1);
    buffer<std::byte> step_numbers(sizeof(kernel::adamw_step_numbers));
    auto* step = reinterpret_cast<kernel::adamw_step_numbers*>(step_numbers.data());
    all.scale_gradients(factor.span().data());
    for (std::int64_t t = 1; t <= 2; ++t) {
      const kernel::adamw_step_numbers now(
          {.learning_rate = 0.01 / static_cast<double>(t), .step = t});
      copy_in(step_numbers.span(), std::as_bytes(std::span(&now, 1)));
      all.sum_of_squares(squares.span().data());
      all.set_clip_factor(&step->gradient_scale, squares.span().data(), t == 1 ? 3.0 : 1e9);
      all.step(step);
    }
    std::vector<S> result;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (const auto* values : {&w[i], &m[i], &v[i], &g[i]}) {
        for (const S value : values->back()) result.push_back(value);
      }
      if (tensors[i].copy == nullptr) continue;
      for (const bf16 value : copies[i].back()) result.push_back(static_cast<S>(value));
    }
    return std::pair(result, squares.back()[0]);
  };

  // What the kernels of single tensors make of it.
  std::vector<S> right;
  double squares = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto g = samples::numbers<S>(lengths[i], "g");
    kernel::scale_by(std::span(g), 0.5);
    if (i != 3) squares += kernel::sum_of_squares(std::span(g));
  }
  BOOST_TEST(std::sqrt(squares) > 3);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto w = samples::numbers<S>(lengths[i], "w");
    std::vector<S> m(w.size()), v(w.size());
    std::vector<bf16> copy(w.size());
    auto g = samples::numbers<S>(lengths[i], "g");
    kernel::scale_by(std::span(g), 0.5);
    for (std::int64_t t = 1; t <= 2; ++t) {
      kernel::adamw(std::span(w), std::span(m), std::span(v), g, std::span(copy),
                    {.learning_rate = 0.01 / static_cast<double>(t),
                     .weight_decay = i % 3 == 0 ? 0.1 : 0,
                     .gradient_scale = t == 1 ? 3.0 / std::sqrt(squares) : 1,
                     .step = t});
    }
    for (const auto* values : {&w, &m, &v, &g})
      right.insert(right.end(), values->begin(), values->end());
    if (i % 2 == 0) {
      for (const bf16 value : copy) right.push_back(static_cast<S>(value));
    }
  }
  for (const bool on_device : {false, true}) {
    const auto [values, sum] = runs(on_device);
    BOOST_TEST(sum == squares, boost::test_tools::tolerance(1e-13));
    BOOST_TEST(apart(values, right) < bar<S>);
  }
}
