// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/batches.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <vector>

#include "refusal.hpp"

using namespace tenon;

namespace {

// All of it is arithmetic that the compiler can do.
static_assert(batch_division(8, 2, 3).share_of(0) == region{0, 3});
static_assert(batch_division(8, 2, 3).share_of(2) == region{6, 2});
static_assert(batch_division(8, 2, 3).microbatches() == 2);
static_assert(batch_division(8, 2, 3).microbatch_of(0, 1) == region{2, 1});
static_assert(batch_division(8, 2, 3).microbatch_of(1, 0) == region{3, 2});
static_assert(batch_division(8, 2, 3).microbatch_of(2, 1) == region{8, 0});
static_assert(batch_division(2, 1, 4).microbatch_of(3, 0) == region{2, 0});
static_assert(batch_division(1, 1, 1).microbatches() == 1);
// 11 over 2 are 6 and 5; 6 over 2 are 3 and 3, 5 are 3 and 2; 3 over 2 are 2 and 1.
static_assert(batch_division(11, 1, 2, 2, 2).ranks() == 8);
static_assert(batch_division(11, 1, 2, 2, 2).share_of(3) == region{5, 1});
static_assert(batch_division(11, 1, 2, 2, 2).share_of(4) == region{6, 2});
static_assert(batch_division(8, 3, 1).microbatches() == 3);  // 3, 3, 2
static_assert(batch_division(8, 3, 1).microbatch_of(0, 2) == region{6, 2});
static_assert(batch_division(std::int64_t{1} << 33, 7, 1 << 20).share_of((1 << 20) - 1).end() ==
              std::int64_t{1} << 33);

/// A text in which the token at i tells its place: i modulo 251.
std::vector<std::uint8_t> text_of(std::int64_t tokens) {
  std::vector<std::uint8_t> text(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(i % 251);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(microbatches_cover_the_batch_once_and_in_order) {
  for (std::int64_t batch = 1; batch <= 19; ++batch) {
    for (std::int64_t microbatch = 1; microbatch <= batch; ++microbatch) {
      for (int ranks = 1; ranks <= 9; ++ranks) {
        const batch_division division(batch, microbatch, ranks);
        const std::int64_t most = (batch + ranks - 1) / ranks;
        BOOST_TEST(division.microbatches() == (most + microbatch - 1) / microbatch);
        std::int64_t next = 0, largest = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::int64_t share = batch / ranks + (rank < batch % ranks ? 1 : 0);
          BOOST_TEST(division.share_of(rank).size == share);
          for (std::int64_t m = 0; m < division.microbatches(); ++m) {
            const region places = division.microbatch_of(rank, m);
            BOOST_TEST(places.begin == next);
            BOOST_TEST(places.size <= microbatch);
            next = places.end();
            largest = std::max(largest, places.size);
          }
          BOOST_TEST(next == division.share_of(rank).end());
        }
        BOOST_TEST(next == batch);
        BOOST_TEST(division.most_sequences() == largest);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_sequence_once_an_epoch) {
  for (std::int64_t sequences : {1, 2, 3, 7, 16, 17, 100}) {
    for (std::int64_t batch : {1, 2, 5, 16, 33}) {
      const data_order order(sequences, batch, 3);
      const std::int64_t epochs = 4;
      std::vector<std::set<std::int64_t>> seen(epochs);
      for (std::int64_t step = 0; step * batch < epochs * sequences; ++step) {
        for (std::int64_t place = 0; place < batch; ++place) {
          const std::int64_t epoch = order.epoch_at(step, place);
          if (epoch >= epochs) continue;
          const std::int64_t number = order.sequence_at(step, place);
          BOOST_TEST((number >= 0 && number < sequences));
          BOOST_TEST(seen[static_cast<std::size_t>(epoch)].insert(number).second);
        }
      }
      for (const auto& epoch : seen) {
        BOOST_TEST(static_cast<std::int64_t>(epoch.size()) == sequences);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_ranks_together_see_every_sequence_once_an_epoch) {
  const std::int64_t sequences = 48, batch = 12;  // an epoch is four steps
  const data_order order(sequences, batch, 9);
  for (int ranks : {1, 2, 3, 4, 5, 7, 12, 13}) {
    for (std::int64_t microbatch : {1, 2, 3, 5, 12}) {
      const batch_division division(batch, microbatch, ranks);
      std::multiset<std::int64_t> seen;
      for (std::int64_t step = 8; step < 12; ++step) {  // the third epoch
        for (int rank = 0; rank < ranks; ++rank) {
          for (std::int64_t m = 0; m < division.microbatches(); ++m) {
            const region places = division.microbatch_of(rank, m);
            for (std::int64_t p = places.begin; p < places.end(); ++p) {
              BOOST_TEST(order.epoch_at(step, p) == 2);
              seen.insert(order.sequence_at(step, p));
            }
          }
        }
      }
      BOOST_TEST(static_cast<std::int64_t>(seen.size()) == sequences);
      BOOST_TEST(static_cast<std::int64_t>(
                     std::set<std::int64_t>(seen.begin(), seen.end()).size()) == sequences);
    }
  }
}

BOOST_AUTO_TEST_CASE(order_depends_on_seed_and_epoch_alone) {
  const auto epoch_of = [](std::uint64_t seed, std::int64_t batch, std::int64_t epoch) {
    const data_order order(210, batch, seed);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = epoch * 210; i < (epoch + 1) * 210; ++i) {
      numbers.push_back(order.sequence_at(i / batch, i % batch));
    }
    return numbers;
  };
  BOOST_TEST((epoch_of(1, 7, 0) == epoch_of(1, 30, 0)));  // not on the batch
  BOOST_TEST((epoch_of(1, 11, 2) == epoch_of(1, 210, 2)));
  BOOST_TEST((epoch_of(1, 7, 0) != epoch_of(2, 7, 0)));
  BOOST_TEST((epoch_of(1, 7, 0) != epoch_of(1, 7, 1)));
  const auto first = epoch_of(1, 7, 0);
  BOOST_TEST(!std::is_sorted(first.begin(), first.end()));
}

BOOST_AUTO_TEST_CASE(tokens_and_their_successors) {
  const std::int64_t sequence = 10;
  const auto text = text_of(sequence * 23 + 1 + 4);  // 23 sequences; 4 tokens are left over
  const batches data(text, sequence, 6, 5);
  BOOST_TEST(data.order().sequences() == 23);
  BOOST_TEST(data.tokens_in_step() == 60);
  for (std::int64_t step : {0, 3, 4, 7}) {
    std::vector<std::int32_t> inputs(60), targets(60);
    data.fill(step, {0, 6}, inputs, targets);
    for (std::size_t i = 0; i < 60; ++i) {
      const auto place = static_cast<std::int64_t>(i) / sequence;
      const auto position = static_cast<std::int64_t>(i) % sequence;
      const std::int64_t at = data.order().sequence_at(step, place) * sequence + position;
      BOOST_TEST(inputs[i] == at % 251);
      BOOST_TEST(targets[i] == (at + 1) % 251);
    }
    // Parts of the batch and of the sequence are parts of the same tokens.
    for (std::int64_t begin : {0, 3, 9}) {
      const region positions{begin, begin == 9 ? 1 : 4};
      std::vector<std::int32_t> some(static_cast<std::size_t>(2 * positions.size)), after(some);
      data.fill(step, {4, 2}, positions, some, after);
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t p = 0; p < positions.size; ++p) {
          const auto from = static_cast<std::size_t>(b * positions.size + p);
          const auto whole = static_cast<std::size_t>((4 + b) * sequence + begin + p);
          BOOST_TEST(some[from] == inputs[whole]);
          BOOST_TEST(after[from] == targets[whole]);
        }
      }
    }
    data.fill(step, {6, 0}, {}, {});           // a rank without sequences
    data.fill(step, {0, 6}, {10, 0}, {}, {});  // a rank without positions
  }
}

BOOST_AUTO_TEST_CASE(every_token_but_the_first_is_predicted_once_an_epoch) {
  const auto text = text_of(7 * 13 + 1);
  const batches data(text, 7, 13, 1, 257);  // a vocabulary larger than the bytes
  std::vector<std::int32_t> inputs(7 * 13), targets(7 * 13);
  data.fill(0, {0, 13}, inputs, targets);
  std::vector<std::int32_t> all(text.begin() + 1, text.end());
  std::sort(all.begin(), all.end());
  std::sort(targets.begin(), targets.end());
  BOOST_TEST((all == targets));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const auto text = text_of(100);
  const auto made = [&](std::int64_t sequence, std::int64_t batch, std::int64_t vocabulary = 256) {
    return refusal_of([&] { batches(text, sequence, batch, 1, vocabulary); });
  };
  BOOST_TEST(made(99, 1) == "it was accepted");
  BOOST_TEST(batches(text, 10, 1, 1).order().sequences() == 9);  // the tenth lacks a last target
  BOOST_TEST(batches(text, 9, 1, 1).order().sequences() == 11);
  BOOST_TEST(made(100, 1) ==
             "2: --text holds 100 bytes, and --sequence 100 needs one more than its length; type "
             "--sequence 99 or less, or --text with a longer text");
  BOOST_TEST(made(0, 1) == "2: --sequence 0 is not a size; type --sequence 1 or more");
  BOOST_TEST(made(10, 0) == "2: --batch 0 is not a size; type --batch 1 or more");
  BOOST_TEST(made(10, 1, 99) ==
             "2: --text holds a byte 99 and the vocabulary has 99 words; every byte is a word; use "
             "a vocabulary of 100 or more");
  BOOST_TEST(made(10, 1, 100) == "it was accepted");
  const std::vector<std::uint8_t> one(1), none;
  BOOST_TEST(refusal_of([&] { batches(one, 1, 1, 1); }) ==
             "2: --text holds 1 bytes, and predicting takes at least 2; type --text with a longer "
             "text");
  BOOST_TEST(refusal_of([&] { batches(none, 1, 1, 1); }).find("holds 0 bytes") !=
             std::string::npos);

  BOOST_TEST(refusal_of([] { batch_division(16, 17, 1); }) ==
             "2: --microbatch 17 does not fit --batch 16; it is between 1 and 16; type "
             "--microbatch 16");
  BOOST_TEST(refusal_of([] { batch_division(16, 0, 1); }).find("type --microbatch 1") !=
             std::string::npos);
  BOOST_TEST(refusal_of([] { batch_division(16, 1, 0); }).find("by 0 ranks") != std::string::npos);
  BOOST_TEST(refusal_of([] { data_order(0, 1, 1); }).find("has 0 sequences") != std::string::npos);

  const batches data(text, 10, 4, 1);
  std::vector<std::int32_t> buffer(40);
  const auto filled = [&](region places, region positions, std::size_t inputs,
                          std::size_t targets) {
    return refusal_of([&] {
      data.fill(0, places, positions, std::span(buffer).first(inputs),
                std::span(buffer).first(targets));
    });
  };
  BOOST_TEST(filled({3, 2}, {0, 10}, 20, 20).find("places 3 to 5") != std::string::npos);
  BOOST_TEST(filled({0, 1}, {5, 6}, 6, 6).find("positions 5 to 11") != std::string::npos);
  BOOST_TEST(filled({0, 2}, {0, 10}, 20, 19).find("20 inputs and 19 targets") != std::string::npos);
  BOOST_TEST(filled({0, 2}, {0, 10}, 20, 20) == "it was accepted");
}

BOOST_AUTO_TEST_CASE(large_texts_need_no_memory_for_their_order) {
  const data_order order(std::int64_t{1} << 40, std::int64_t{1} << 20, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t place = 0; place < 1000; ++place) {
    const std::int64_t number = order.sequence_at(1'000'000, place);
    BOOST_TEST((number >= 0 && number < order.sequences()));
    seen.insert(number);
  }
  BOOST_TEST(seen.size() == 1000U);
  BOOST_TEST(*seen.rbegin() > std::int64_t{1} << 32);
}
