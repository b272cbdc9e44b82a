// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "samples.hpp"
#include "tenon/kernel/attention.hpp"
#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/embedding.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/optimizer.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/kernel/rotary.hpp"
#include "tenon/kernel/rows/cross_entropy.hpp"
#include "tenon/kernel/rows/layer_norm.hpp"

using namespace tenon;
using kernel::host_team;

BOOST_AUTO_TEST_CASE(every_program_runs_once) {
  for (const int threads : {1, 2, 3}) {
    const samples::with_threads set(threads);
    for (const kernel::sharing how : {kernel::sharing::equal, kernel::sharing::as_free}) {
      for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
        kernel::for_each_team(count, {.how = how}, [&](host_team& team, std::int64_t i) {
          // Boost's checks are for one thread: what the programs find is checked after them.
          runs[static_cast<std::size_t>(i)] += static_cast<int>(team.size());
        });
        for (const auto& once : runs) BOOST_TEST(once.load() == 1);
        std::atomic<std::int64_t> covered{0};
        std::atomic<bool> too_long{false};
        kernel::for_each_range(count, 3, {.how = how},
                               [&](host_team&, std::int64_t begin, std::int64_t end) {
                                 if (end - begin > 3) too_long = true;
                                 covered += end - begin;
                               });
        BOOST_TEST(covered.load() == count);
        BOOST_TEST(!too_long.load());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_exception_leaves_the_launch) {
  for (const int threads : {1, 2}) {
    const samples::with_threads set(threads);
    BOOST_CHECK_THROW(kernel::for_each_team(100, {},
                                            [&](host_team&, std::int64_t i) {
                                              if (i == 50) throw error(error_kind::failed, "no");
                                            }),
                      error);
  }
}

BOOST_AUTO_TEST_CASE(teams_have_scratch_of_their_own) {
  const samples::with_threads two(2);
  auto& meter = memory_meter::of_this_rank();
  const std::int64_t before = meter.live();
  meter.restart_peak();
  const std::int64_t each = host_team::scratch_bytes<double>(100);
  std::atomic<int> wrong{0};
  kernel::for_each_team(64, {.scratch_bytes = each}, [&](host_team& team, std::int64_t i) {
    auto* numbers = team.scratch<double>(100);
    for (int j = 0; j < 100; ++j) numbers[j] = static_cast<double>(i);
    for (int j = 0; j < 100; ++j) wrong += numbers[j] == static_cast<double>(i) ? 0 : 1;
    if (reinterpret_cast<std::uintptr_t>(numbers) % 64 != 0) ++wrong;
  });
  BOOST_TEST(wrong.load() == 0);
  BOOST_TEST(meter.peak() - before >= each);
  BOOST_TEST(meter.live() == before);
  BOOST_CHECK_THROW(
      kernel::for_each_team(1, {.scratch_bytes = 64},
                            [](host_team& team, std::int64_t) { team.scratch<double>(9); }),
      error);
}

BOOST_AUTO_TEST_CASE(reductions_agree_with_loops) {
  host_team team(nullptr, 0);
  for (std::int64_t n = 0; n < 100; ++n) {
    BOOST_TEST(team.sum<std::int64_t>(n, [](std::int64_t i) { return i; }) == n * (n - 1) / 2);
    BOOST_TEST(team.reduce(
                   n, std::int64_t{-1}, [n](std::int64_t i) { return i * 101 % n; },
                   kernel::detail::larger{}) == n - 1);
  }
}

BOOST_AUTO_TEST_CASE(each_thread_has_its_own_number_of_threads) {
  const samples::with_threads three(3);
  int elsewhere = 0;
  std::thread other([&] { elsewhere = kernel::threads(); });
  other.join();
  BOOST_TEST(elsewhere == 1);
  BOOST_TEST(kernel::threads() == 3);
  BOOST_CHECK_THROW(kernel::set_threads(0), error);
}

BOOST_AUTO_TEST_CASE(a_dry_run_touches_nothing_and_counts_its_scratch) {
  const auto everything = [](std::int64_t size) {
    // Sizes that would take terabytes; in a dry run all data are null.
    buffer<bf16> a(size * size);
    buffer<float> statistics(size);
    buffer<std::int32_t> tokens(size);
    const auto m = view_of(a.data(), size, size);
    const auto wide_m = view_of(static_cast<float*>(nullptr), size, size);
    const auto s = statistics.span();
    const std::span<const bf16> gain(a.data(), std::size_t{0});
    using enum kernel::orientation;
    kernel::product(m, m, as_stored, m.rows_from(0, size), transposed);
    kernel::run(kernel::read{m} | kernel::add{kernel::per_column{gain}} | kernel::gelu{} |
                kernel::dropout{0.1F, {}, {}} | kernel::write{m});
    kernel::column_sum(s, m);
    kernel::layer_norm(m, s, s, m, gain, gain);
    kernel::layer_norm_backward(m, s, s, m, m, gain, s, s);
    kernel::softmax(m, m);
    kernel::cross_entropy_maximum(s, m);
    kernel::cross_entropy_sums(s, s, m, tokens.span(), 0, std::span<const float>(s));
    kernel::cross_entropy_backward(m, m, tokens.span(), 0, s, s, s);
    kernel::rotate(m, kernel::make_angles<float>(0, size, size));
    kernel::embedding(m, tokens.span(), m);
    kernel::embedding_backward(wide_m, tokens.span(), m);
    const std::vector<int> heads{0};
    const kernel::attention_shape shape{.batch = 1,
                                        .q_length = size,
                                        .k_length = size,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .width = size,
                                        .kv_of_head = heads};
    kernel::attention(m, s, m, m, m, shape);
    kernel::attention_backward(m, m, m, m, m, m, m, m, s, shape);
    kernel::adamw(s, s, s, s, {});
    kernel::sum_of_squares(s);
  };
  const shapes_only dry;
  const double operations = kernel::product_operations();
  everything(std::int64_t{1} << 20);
  BOOST_TEST(kernel::product_operations() == operations);
  // The largest thing was attention's backward beside the matrix: two sums of [k_length, width].
  BOOST_TEST(memory_meter::of_this_rank().peak() >
             (std::int64_t{2} << 40) + (std::int64_t{8} << 40));
  BOOST_TEST(memory_meter::of_this_rank().live() == 0);
}
