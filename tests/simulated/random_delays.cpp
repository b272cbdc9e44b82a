// SPDX-License-Identifier: Apache-2.0
// Small layouts drawn at random, all with overlap, on ranks that come late to their calls and links
// that differ, both at random: no run hangs, the results meet the bars against one rank, and
// another draw of the delays gives the same bits. An argument says how many layouts; 15 unless
// given.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tenon/base/random.hpp"
#include "training.hpp"

namespace {

using namespace tenon_test;

// Numbers from 0 to `below` - 1, one after the other.
class draws {
 public:
  explicit draws(std::int64_t repeat)
      : stream_(11, "layouts", static_cast<std::uint64_t>(repeat)) {}
  int below(int limit) {
    const auto number = static_cast<int>(static_cast<double>(stream_.uniform(next_++)) * limit);
    return number < limit ? number : limit - 1;
  }

 private:
  random_stream stream_;
  std::int64_t next_ = 0;
};

training_request serial_request(int form, bool packed) {
  training_request request;
  request.shape = small_shape(form == 0 ? block_form::gpt2 : block_form::llama);
  request.shape.layers = 4;
  request.shape.sequence = 7;
  request.steps = 2;
  request.batch = 4;
  request.document_separator = packed ? 3 : -1;
  return request;
}

// A layout of at most 8 ranks; the options of a run that fit it.
training_request drawn(draws& draw, const training_request& serial) {
  training_request r = serial;
  r.pipeline = 1 + draw.below(2);
  r.data = 1 + draw.below(r.pipeline == 1 ? 3 : 2);
  r.tensor = 1 + draw.below(r.data * r.pipeline <= 2 ? 3 : 2);
  r.context = r.data * r.pipeline * r.tensor <= 4 ? 1 + draw.below(2) : 1;
  r.split_sequence = draw.below(3) > 0;
  r.attention.heads_parallel = 1 + draw.below(r.context);
  r.schedule = pipeline_schedules[static_cast<std::size_t>(draw.below(4))];
  r.chunks = r.schedule == pipeline_schedule::interleaved ? 2 : 1;
  r.shards = {.stage = static_cast<shards>(draw.below(4)),
              .bucket = {draw.below(2) == 0 ? 1000 : 1 << 22},
              .overlap = true};
  r.microbatch = 1 + draw.below(2);
  r.recompute = static_cast<recompute>(draw.below(3));
  r.sums = draw.below(2) == 0 ? sum_order::any : sum_order::fixed;
  return r;
}

// How late ranks come and what links cost, at random: tenths of milliseconds.
void delay(training_request& r, std::uint64_t seed) {
  r.options.delayed_rank = -2;
  r.options.longest_delay = std::chrono::microseconds(300);
  r.options.seed = seed;
  r.options.timeout = 60;
  r.links = [seed](int from, int to) {
    const random_stream stream(seed, "links", static_cast<std::uint64_t>(from));
    return link_cost{2e-4 * static_cast<double>(stream.uniform(to)), 1e8};
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_hang_and_the_same_bits) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  const int repeats = suite.argc > 1 ? std::stoi(suite.argv[1]) : 15;
  std::map<std::pair<int, bool>, training_outcome> serial;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    draws draw(repeat);
    const int form = draw.below(2);
    const bool packed = draw.below(3) == 0;
    const training_request alone = serial_request(form, packed);
    training_request request = drawn(draw, alone);
    if (!serial.contains({form, packed})) serial[{form, packed}] = run_training(alone);
    BOOST_TEST_CONTEXT("repeat " << repeat << ": " << text_of(request)) {
      delay(request, 2 * static_cast<std::uint64_t>(repeat) + 1);
      const training_outcome first = run_training(request);
      delay(request, 2 * static_cast<std::uint64_t>(repeat) + 2);
      const training_outcome second = run_training(request);
      for (const auto& fault : first.faults) BOOST_ERROR(fault);
      for (const auto& fault : second.faults) BOOST_ERROR(fault);
      BOOST_TEST(missed_bars(compare(serial[{form, packed}], first)) == "");
      BOOST_TEST(equal_bits(first.gradients, second.gradients));
      BOOST_TEST(equal_bits(first.weights, second.weights));
      BOOST_TEST(difference(first.losses, second.losses) == 0);
    }
  }
}
