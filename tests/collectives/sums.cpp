// SPDX-License-Identifier: Apache-2.0
// The order of sums, bf16 added in fp32, pairs of log_sum_exp, and lengths beyond an int.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "checks.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/ranks.hpp"
#include "tenon/communicate/simulated.hpp"

using namespace tenon_test;
using boost::unit_test::data::make;

namespace {

constexpr std::int64_t length = 1009;

std::vector<double> random_values(int rank) {
  const random_stream draws(7, "values", static_cast<std::uint64_t>(rank));
  std::vector<double> values;
  for (std::int64_t i = 0; i < length; ++i) values.push_back(draws.normal(i));
  return values;
}

/// The sum over the ranks, all-reduced in buckets of `bucket` elements; `overlap`: all are started
/// before the first is waited for. Rank 0's result.
std::vector<double> summed(int ranks, std::int64_t bucket, sum_order sums, bool overlap,
                           const simulated_options& options = {}) {
  std::vector<double> result;
  simulate(
      ranks,
      [&](std::unique_ptr<transport> world) {
        ledger book;
        communicator group(std::move(world), "data", book, {.sums = sums});
        std::vector<double> values = random_values(group.rank());
        std::vector<pending> started;
        for (std::int64_t begin = 0; begin < length; begin += bucket) {
          const auto size = static_cast<std::size_t>(std::min(bucket, length - begin));
          started.push_back(communicate::all_reduce(
              group, std::span(values).subspan(static_cast<std::size_t>(begin), size),
              reduction_kind::sum, {.start_only = overlap}));
        }
        for (pending& call : started) call.wait();
        if (group.rank() == 0) result = values;
      },
      options);
  return result;
}

bool bitwise(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

BOOST_DATA_TEST_CASE(fixed_sums_do_not_depend_on_buckets, make({3, 4}), ranks) {
  const auto whole = summed(ranks, length, sum_order::fixed, false);
  std::vector<double> in_order = random_values(0);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto next = random_values(rank);
    for (std::size_t i = 0; i < next.size(); ++i) in_order[i] += next[i];
  }
  BOOST_TEST(bitwise(whole, in_order));
  for (const std::int64_t bucket : {std::int64_t{1}, std::int64_t{7}, std::int64_t{333}, length}) {
    for (const bool overlap : {false, true}) {
      BOOST_TEST(bitwise(summed(ranks, bucket, sum_order::fixed, overlap), whole));
    }
  }
}

// The order of `any` sums is that of a ring and does depend on the place in the buffer: without
// this the test above could not fail.
BOOST_DATA_TEST_CASE(any_sums_differ_in_the_last_bits_only, make({3, 4}), ranks) {
  const auto whole = summed(ranks, length, sum_order::any, false);
  const auto cut = summed(ranks, 7, sum_order::any, false);
  BOOST_TEST(!bitwise(whole, cut));
  for (std::size_t i = 0; i < whole.size(); ++i) BOOST_TEST(std::abs(whole[i] - cut[i]) <= 1e-14);
}

BOOST_DATA_TEST_CASE(repeats_are_bitwise_equal_with_late_ranks, make({3, 4}), ranks) {
  for (const sum_order sums : {sum_order::any, sum_order::fixed}) {
    const auto first = summed(ranks, 333, sums, true);
    for (std::uint64_t repeat = 0; repeat < 50; ++repeat) {
      const simulated_options late{.delayed_rank = static_cast<int>(repeat) % ranks,
                                   .longest_delay = std::chrono::microseconds(500),
                                   .seed = repeat};
      BOOST_TEST(bitwise(summed(ranks, 333, sums, true, late), first));
    }
  }
}

BOOST_AUTO_TEST_CASE(bf16_is_added_in_fp32_and_rounded_once) {
  simulate(8, [](std::unique_ptr<transport> world) {
    ledger book;
    communicator group(std::move(world), "tensor", book);
    // Added one by one in bf16, 1 + 2^-9 stays 1.
    std::vector<bf16> values(17, bf16(group.rank() == 0 ? 1.0F : 0x1p-9F));
    const std::vector<bf16> before = values;
    communicate::all_reduce(group, std::span(values));
    for (const bf16 v : values) expect(static_cast<float>(v) == 1.015625F, "all_reduce of bf16");
    const counts cut{3, 2, 2, 2, 2, 2, 2, 2};
    std::vector<bf16> piece(static_cast<std::size_t>(cut[static_cast<std::size_t>(group.rank())]));
    communicate::reduce_scatter(group, before, std::span(piece), std::span(cut));
    for (const bf16 v : piece) expect(static_cast<float>(v) == 1.015625F, "reduce_scatter of bf16");
  });
}

BOOST_DATA_TEST_CASE(log_sum_exp_merges_pairs, make({1, 2, 3, 5}), ranks) {
  simulate(ranks, [&](std::unique_ptr<transport> world) {
    ledger book;
    communicator group(std::move(world), "tensor", book);
    // Scores far beyond what exp can hold; rank 1 has none.
    const auto score = [](int rank, int i) { return 1000.0 * i + rank; };
    const double none = -std::numeric_limits<double>::infinity();
    std::vector<double> pairs;
    for (int i = 0; i < 3; ++i) {
      pairs.push_back(group.rank() == 1 ? none : score(group.rank(), i));
      pairs.push_back(group.rank() == 1 ? 0.0 : 1.0);
    }
    communicate::all_reduce(group, std::span(pairs), reduction_kind::log_sum_exp);
    for (int i = 0; i < 3; ++i) {
      const int last = ranks == 2 ? 0 : ranks - 1;
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank != 1) sum += std::exp(score(rank, i) - score(last, i));
      }
      const double got = pairs[static_cast<std::size_t>(2 * i)] +
                         std::log(pairs[static_cast<std::size_t>(2 * i + 1)]);
      expect(std::abs(got - score(last, i) - std::log(sum)) < 1e-12, "log_sum_exp");
    }
    std::vector<double> empty{none, 0.0};
    communicate::all_reduce(group, std::span(empty), reduction_kind::log_sum_exp);
    expect(empty[0] == none && empty[1] == 0.0, "the merge of nothing is nothing, and no NaN");
  });
}

BOOST_AUTO_TEST_CASE(lengths_beyond_an_int_are_counted) {
  const counts cut(4, 600'000'000);
  request r;
  r.call = collective::reduce_scatter;
  r.element = element_kind::bf16;
  r.from_counts = cut;
  BOOST_TEST(global_count_of(r) == 2'400'000'000);
  BOOST_TEST(bytes_crossing(r, 1, 4) == 3'600'000'000);
  r.call = collective::all_reduce;
  r.count = 3'293'642'752;  // 64 x 1024 x 50257
  BOOST_TEST(bytes_crossing(r, 0, 4) == 2 * 2 * (3'293'642'752 / 4 * 3));
  r.call = collective::all_to_all;
  BOOST_TEST(bytes_crossing(r, 3, 4) == 3'600'000'000);

  // The whole call, in a run for shapes: nothing is allocated, and the scratch is foreseen.
  const shapes_only dry;
  auto all = ranks<mesh<axis::data>>::absent(mesh<axis::data>({4}, 1));
  buffer<bf16> whole(sum_of(cut)), piece(cut[1]);
  const std::int64_t held = memory_meter::of_this_rank().live();
  BOOST_TEST(held == 2 * 3'000'000'000);
  communicate::reduce_scatter(all.on<axis::data>(), communicate::elements_of(whole),
                              communicate::elements_of(piece), std::span(cut));
  BOOST_TEST(memory_meter::of_this_rank().peak() - held == 2 * 2'400'000'000);
  BOOST_TEST(memory_meter::of_this_rank().live() == held);
  BOOST_TEST(all.ledger().rows().empty());
}

// What a run for shapes foresees is what the run takes.
BOOST_AUTO_TEST_CASE(predicted_scratch_is_the_scratch) {
  const auto peak_of = [](communicator& group, bool start) {
    buffer<bf16> values = buffer<bf16>::zeros(1001);
    memory_meter::of_this_rank().restart_peak();
    pending call = communicate::all_reduce(group, communicate::elements_of(values),
                                           reduction_kind::sum, {.start_only = start});
    call.wait();
    return memory_meter::of_this_rank().peak();
  };
  simulate(3, [&](transport& world) {
    for (const bool start : {false, true}) {
      std::int64_t predicted = 0;
      {
        const shapes_only dry;
        auto all = ranks<mesh<axis::data>>::absent(mesh<axis::data>({3}, world.rank()));
        predicted = peak_of(all.on<axis::data>(), start);
      }
      ranks<mesh<axis::data>> all(world, mesh<axis::data>({3}));
      const std::int64_t taken = peak_of(all.on<axis::data>(), start);
      expect(predicted == taken && taken > 2002, "peak", predicted, taken);
    }
  });
}
