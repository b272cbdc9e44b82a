// SPDX-License-Identifier: Apache-2.0
// Teams of many lanes, and that the emulation finds what a GPU would not forgive.
#include "both.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/kernel/team/tiles.hpp"

using namespace tenon;
using kernel::lane_order;

namespace {

/// y[i] = x[n-1-i] through scratch: without the barrier some lanes read before others have written.
struct turned_around {
  static constexpr std::string_view name = "turned_around";
  const float* x;
  float* y;
  std::int64_t n;
  bool lacks_barrier;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    float* kept = team.template scratch<float>(n);
    team.for_each(n, [=, this](std::int64_t i) { kept[i] = x[i]; });
    if (!lacks_barrier) team.barrier();
    team.for_each(n, [=, this](std::int64_t i) { y[i] = kept[n - 1 - i]; });
  }
};

/// y[i] = 1 for `count` elements, however many there are.
struct written_too_far {
  static constexpr std::string_view name = "written_too_far";
  float* y;
  std::int64_t count;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    team.for_each(count, [=, this](std::int64_t i) { y[i] = 1; });
  }
};

/// Half of the lanes wait for the others, which end.
struct waits_alone {
  static constexpr std::string_view name = "waits_alone";

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    if (team.rank() < 32) team.barrier();
  }
};

/// All that a team can do with arrays, over n elements.
template <class T>
struct everything {
  static constexpr std::string_view name = "everything";
  const T* x;
  T* y;
  wide<T>* sums;  // sum, largest, sum by elements, lanes that stored once
  std::int64_t n;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    using W = wide<T>;
    const W sum = team.template sum_of<W>(
        n, [](W a) { return a; }, x);
    const W largest = team.reduce_of(
        n, W{-100}, [](W a) { return a; }, [](W a, W b) { return a < b ? b : a; }, x);
    const W again = team.template sum<W>(n, [=, this](std::int64_t i) { return widen(x[i]); });
    team.apply(
        n, [=](W& out, W in) { out = in + largest; }, kernel::only_written{y}, x);
    team.barrier();
    team.apply(
        n, [](W& out) { out = out * 2; }, y);
    team.once([&] {
      sums[0] = sum;
      sums[1] = largest;
      sums[2] = again;
      sums[3] += 1;
    });
  }
};

/// sum = left x right, one tile each.
struct one_tile_product {
  static constexpr std::string_view name = "one_tile_product";
  static constexpr int threads = 32;
  const bf16* left;    // [16, 16]
  const bf16* right;   // [16, 8]
  float* sum;          // [16, 8]
  bool right_by_rows;  // right is [8, 16], its transpose

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    const int lane = static_cast<int>(team.rank());
    kernel::sum_tile<> c{};
    team.multiply_tile(c, kernel::load_left(lane, left, 16),
                       right_by_rows ? kernel::load_right_of_rows(lane, right, 16)
                                     : kernel::load_right(lane, right, 8));
    for (int i = 0; i < 4; ++i) {
      sum[kernel::sum_row(lane, i) * 8 + kernel::sum_column(lane, i)] = c.values[i];
    }
  }
};

std::vector<float> turned(lane_order order, bool lacks_barrier) {
  const both::on_emulated here(order);
  const std::int64_t n = 100;
  both::numbers<float> x(samples::numbers<float>(n, "x"));
  both::numbers<float> y(n);
  kernel::for_each_team(1, {.scratch_bytes = kernel::host_team::scratch_bytes<float>(n)},
                        turned_around{x.span().data(), y.span().data(), n, lacks_barrier});
  return y.back();
}

template <class F>
std::string sentence_of(F&& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(lanes_work_together) {
  kernel::enter_emulated_programs(type_list<turned_around>{});
  auto right = samples::numbers<float>(100, "x");
  std::reverse(right.begin(), right.end());
  for (const lane_order order : both::all_orders) BOOST_TEST(turned(order, false) == right);
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_is_found) {
  kernel::enter_emulated_programs(type_list<turned_around>{});
  auto right = samples::numbers<float>(100, "x");
  std::reverse(right.begin(), right.end());
  // Scratch is full of NaNs before a program begins, so every order shows it.
  for (const lane_order order : both::all_orders) BOOST_TEST(turned(order, true) != right);
}

BOOST_AUTO_TEST_CASE(a_barrier_that_some_lanes_never_reach_is_found) {
  kernel::enter_emulated_programs(type_list<waits_alone>{});
  const both::on_emulated here;
  const auto sentence = sentence_of([] { kernel::for_each_team(1, {}, waits_alone{}); });
  BOOST_TEST(sentence.find("must reach every barrier") != std::string::npos);
}

// Under AddressSanitizer the access itself ends the program: the preset for it leaves this out.
BOOST_AUTO_TEST_CASE(a_write_out_of_bounds_is_found) {
  if (__asan_poison_memory_region != nullptr) return;
  kernel::enter_emulated_programs(type_list<written_too_far>{});
  const both::on_emulated here;
  both::numbers<float> y(100);
  kernel::for_each_team(1, {}, written_too_far{y.span().data(), 100});
  const auto sentence = sentence_of([&] {
    kernel::for_each_team(1, {}, written_too_far{y.span().data(), 101});
  });
  BOOST_TEST(sentence.find("wrote outside of the buffers") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_program_that_was_not_compiled_is_named) {
  const both::on_emulated here;
  const auto sentence = sentence_of([] {
    kernel::for_each_team(1, {}, everything<double>{nullptr, nullptr, nullptr, 0});
  });
  BOOST_TEST(sentence.find("kernel everything: it was not compiled for the emulated device") !=
             std::string::npos);
  const auto of_lambda =
      sentence_of([] { kernel::for_each_team(1, {}, [](auto&, std::int64_t) {}); });
  BOOST_TEST(of_lambda.find("a program without a name") != std::string::npos);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(arrays_of_any_length_and_alignment, T, samples::all_elements) {
  kernel::enter_emulated_programs(type_list<everything<T>>{});
  using W = wide<T>;
  for (const lane_order order : both::all_orders) {
    const both::on_emulated here(order);
    for (const std::int64_t n : {0, 1, 7, 8, 63, 64, 65, 513, 1100}) {
      for (const std::int64_t shift : {0, 1}) {  // one element on, nothing begins at 16 bytes
        const auto values = samples::numbers<T>(n + shift, "x");
        both::numbers<T> x(values);
        both::numbers<T> y(n + shift);
        both::numbers<W> sums(std::vector<W>(4, W{0}));
        kernel::for_each_team(
            1, {},
            everything<T>{x.span().data() + shift, y.span().data() + shift, sums.span().data(), n});
        double sum = 0;
        double largest = -100;
        for (std::int64_t i = shift; i < n + shift; ++i) {
          sum += static_cast<double>(values[static_cast<std::size_t>(i)]);
          largest = std::max(largest, static_cast<double>(values[static_cast<std::size_t>(i)]));
        }
        const auto found = sums.back();
        BOOST_TEST(std::abs(static_cast<double>(found[0]) - sum) <= 1e-4);
        BOOST_TEST(static_cast<double>(found[1]) == largest);
        BOOST_TEST(std::abs(static_cast<double>(found[2]) - sum) <= 1e-4);
        BOOST_TEST(static_cast<double>(found[3]) == 1);
        const auto written = y.back();
        for (std::size_t i = static_cast<std::size_t>(shift); i < written.size(); ++i) {
          const T once = T(widen(values[i]) + static_cast<W>(largest));
          BOOST_TEST(static_cast<double>(written[i]) == static_cast<double>(T(widen(once) * 2)));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tiles_multiply) {
  kernel::enter_emulated_programs(type_list<one_tile_product>{});
  const samples::matrix<bf16> left(16, 16, "left");
  const samples::matrix<bf16> right(16, 8, "right");
  samples::matrix<bf16> transposed(8, 16);
  samples::matrix<float> expected(16, 8);
  for (std::int64_t k = 0; k < 16; ++k) {
    for (std::int64_t j = 0; j < 8; ++j) {
      transposed(j, k) = right.view()(k, j);
      for (std::int64_t i = 0; i < 16; ++i) {
        expected(i, j) += widen(left.view()(i, k)) * widen(right.view()(k, j));
      }
    }
  }
  const both::on_emulated here;
  both::matrix<bf16> a(left);
  both::matrix<bf16> b(right);
  both::matrix<bf16> b_by_rows(transposed);
  for (const bool by_rows : {false, true}) {
    both::matrix<float> c(samples::matrix<float>(16, 8));
    kernel::for_each_device_team(
        1, {},
        one_tile_product{a.memory.data(), (by_rows ? b_by_rows : b).memory.data(), c.memory.data(),
                         by_rows});
    BOOST_TEST(samples::difference(c.back(), expected) <= 1e-6);
  }
}
