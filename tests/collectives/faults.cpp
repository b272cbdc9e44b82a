// SPDX-License-Identifier: Apache-2.0
// T-35: plans that disagree, ranks that throw, end or stay away: every rank stops, and the sentence
// names both calls, both ranks and the axis. Over MPI: tests/ranks/failing.cpp.
#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>

#include "checks.hpp"
#include "tenon/communicate/one_rank.hpp"
#include "tenon/communicate/simulated.hpp"

using namespace tenon_test;
using boost::unit_test::data::make;

namespace {

/// How each rank of a run ended: the kind and sentence of its error, if any.
struct ending {
  bool failed = false;
  error_kind kind = error_kind::failed;
  std::string sentence;
};

/// Runs `body(group)` on every rank, and tells how each ended.
std::vector<ending> endings(int ranks, bool compare, const std::function<void(communicator&)>& body,
                            const simulated_options& options = {}) {
  std::vector<ending> all(static_cast<std::size_t>(ranks));
  try {
    simulate(
        ranks,
        [&](std::unique_ptr<transport> world) {
          ending& mine = all[static_cast<std::size_t>(world->rank())];
          ledger book;
          book.set_step(3);
          communicator group(std::move(world), "tensor", book, {.compare_every_call = compare});
          try {
            body(group);
          } catch (const error& e) {
            mine = {true, e.kind(), e.what()};
            throw;
          }
        },
        options);
  } catch (const error&) {
  }
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void sum(communicator& group, std::int64_t count, const char* name) {
  std::vector<float> values(static_cast<std::size_t>(count));
  communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.tensor = name});
}
void gather(communicator& group, const char* name) {
  std::vector<double> piece(5), whole(piece.size() * static_cast<std::size_t>(group.size()));
  communicate::all_gather(group, piece, std::span(whole), {.tensor = name});
}

constexpr bool compared[] = {false, true};

}  // namespace

BOOST_DATA_TEST_CASE(swapped_calls_name_both, make({2, 4}) * make(compared), ranks, compare) {
  const auto all = endings(ranks, compare, [](communicator& group) {
    if (group.rank() == 1) gather(group, "gain");
    sum(group, 20, "weight");
    if (group.rank() != 1) gather(group, "gain");
  });
  int disagreements = 0;
  for (const ending& rank : all) {
    BOOST_TEST(rank.failed);
    if (rank.kind == error_kind::lost_rank) continue;  // heard of it from a rank that ended
    ++disagreements;
    BOOST_TEST((rank.kind == error_kind::disagreement));
    BOOST_TEST_INFO(rank.sentence);
    BOOST_TEST(has(rank.sentence, joined("axis tensor (", ranks, " ranks) disagree at step 3")));
    BOOST_TEST(has(rank.sentence, "called all_reduce (sum) of 20 fp32 'weight' at "));
    BOOST_TEST(
        has(rank.sentence, joined("rank 1 called all_gather of ", 5 * ranks, " fp64 'gain' at ")));
    BOOST_TEST(has(rank.sentence, "faults.cpp:"));
  }
  BOOST_TEST(disagreements >= 1);
}

BOOST_DATA_TEST_CASE(another_size_names_both, make({2, 4}) * make(compared), ranks, compare) {
  const int odd = ranks == 2 ? 1 : 2;
  const auto all = endings(ranks, compare, [odd](communicator& group) {
    sum(group, 8, "first");
    sum(group, group.rank() == odd ? 21 : 20, "weight");
  });
  for (const ending& rank : all) {
    BOOST_TEST(rank.failed);
    BOOST_TEST_INFO(rank.sentence);
    BOOST_TEST(has(rank.sentence, "of 20 fp32 'weight'"));
    BOOST_TEST(has(rank.sentence, joined("rank ", odd, " called all_reduce (sum) of 21 fp32")));
  }
}

// Same call and sizes, another tensor: only the comparison can see it.
BOOST_DATA_TEST_CASE(the_end_of_a_step_compares, make({2, 4}), ranks) {
  const auto all = endings(ranks, false, [](communicator& group) {
    for (int call = 0; call < 3; ++call) sum(group, 4, "common");
    sum(group, 4, group.rank() == 1 ? "bias" : "weight");
    for (int call = 0; call < 9; ++call) sum(group, 4, "common");
    group.compare();
  });
  for (const ending& rank : all) {
    BOOST_TEST_INFO(rank.sentence);
    BOOST_TEST((rank.failed && rank.kind == error_kind::disagreement));
    BOOST_TEST(has(rank.sentence, "rank 0 called all_reduce (sum) of 4 fp32 'weight' at "));
    BOOST_TEST(has(rank.sentence, "rank 1 called all_reduce (sum) of 4 fp32 'bias' at "));
    BOOST_TEST(has(rank.sentence, "(call 4 of the axis)"));
  }
}

BOOST_AUTO_TEST_CASE(a_difference_long_ago_is_still_found) {
  const auto all = endings(3, false, [](communicator& group) {
    sum(group, 4, group.rank() == 2 ? "bias" : "weight");
    for (int call = 0; call < 100; ++call) sum(group, 4, "common");
    group.compare();
  });
  for (const ending& rank : all) {
    BOOST_TEST(
        has(rank.sentence, "the calls of rank 0 and rank 2 differ since more than 64 calls"));
    BOOST_TEST(has(rank.sentence, "TENON_CHECK=calls"));
  }
}

BOOST_AUTO_TEST_CASE(one_call_too_few_is_named) {
  const auto all = endings(2, true, [](communicator& group) {
    sum(group, 4, "weight");
    if (group.rank() == 0) sum(group, 4, "extra");
    group.compare();
  });
  BOOST_TEST(has(all[0].sentence, "rank 0 called all_reduce (sum) of 4 fp32 'extra'"));
  BOOST_TEST(has(all[0].sentence, "rank 1 called nothing after it"));
}

BOOST_AUTO_TEST_CASE(equal_plans_pass_the_comparison) {
  const auto all = endings(4, true, [](communicator& group) {
    for (int call = 0; call < 200; ++call) sum(group, call, "weight");
    group.compare();
  });
  for (const ending& rank : all) BOOST_TEST(!rank.failed);
}

BOOST_DATA_TEST_CASE(a_rank_that_throws_stops_the_others, make({2, 4}), ranks) {
  const int thrower = ranks - 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto all = endings(ranks, false, [thrower](communicator& group) {
    sum(group, 20, "weight");
    if (group.rank() == thrower) throw error(error_kind::failed, "no more paper");
    sum(group, 20, "bias");
  });
  BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)));
  for (int rank = 0; rank < ranks; ++rank) {
    const ending& e = all[static_cast<std::size_t>(rank)];
    BOOST_TEST(e.failed);
    if (rank == thrower) continue;
    BOOST_TEST((e.kind == error_kind::lost_rank));
    BOOST_TEST_INFO(e.sentence);
    BOOST_TEST(has(e.sentence, joined("rank ", thrower, " ended with an error")));
    BOOST_TEST(has(e.sentence, "no more paper"));
    BOOST_TEST(has(e.sentence, "all_reduce (sum) of 20 fp32 'bias'"));
  }
}

BOOST_AUTO_TEST_CASE(the_first_error_is_the_one_thrown) {
  const auto run = [] {
    simulate(4, [](std::unique_ptr<transport> world) {
      ledger book;
      communicator group(std::move(world), "tensor", book);
      if (group.rank() == 2) throw std::runtime_error("the first");
      sum(group, 20, "weight");
    });
  };
  BOOST_CHECK_EXCEPTION(run(), std::runtime_error,
                        [](const auto& e) { return std::string(e.what()) == "the first"; });
}

BOOST_AUTO_TEST_CASE(a_rank_that_has_ended_is_named_at_once) {
  const auto all = endings(2, false, [](communicator& group) {
    if (group.rank() == 0) sum(group, 20, "weight");
  });
  BOOST_TEST((all[0].kind == error_kind::lost_rank));
  BOOST_TEST_INFO(all[0].sentence);
  BOOST_TEST(has(all[0].sentence,
                 "rank 1 of axis tensor (2 ranks) has ended and never comes to "
                 "all_reduce (sum) of 20 fp32 'weight'"));
}

BOOST_DATA_TEST_CASE(a_rank_that_stays_away_is_named_in_time, make({2, 4}), ranks) {
  std::promise<void> others_gave_up;
  std::future<void> gave_up = others_gave_up.get_future();
  std::atomic<int> waiting = ranks - 1;
  const auto all = endings(ranks, false,
                           [&](communicator& group) {
                             if (group.rank() == 1) {
                               gave_up.wait();
                               return;
                             }
                             try {
                               sum(group, 20, "weight");
                             } catch (const error&) {
                               if (--waiting == 0) others_gave_up.set_value();
                               throw;
                             }
                           },
                           {.timeout = 0.2});
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    const ending& e = all[static_cast<std::size_t>(rank)];
    BOOST_TEST_INFO(e.sentence);
    BOOST_TEST(((e.failed && e.kind == error_kind::timed_out) || e.kind == error_kind::lost_rank));
    BOOST_TEST(has(e.sentence, "waited 0.2 s at step 3 in all_reduce (sum) of 20 fp32 'weight'"));
    BOOST_TEST(has(e.sentence, "for rank 1; "));
    BOOST_TEST(has(e.sentence, joined("axis tensor (", ranks, " ranks)")));
  }
}

BOOST_DATA_TEST_CASE(a_message_of_another_size_or_element_is_named, make(compared), compare) {
  const auto all = endings(2, compare, [](communicator& group) {
    std::vector<float> five(5), six(6);
    if (group.rank() == 0) communicate::send(group, std::span(five), 1, {.tensor = "stream"});
    if (group.rank() == 1) communicate::receive(group, std::span(six), 0, {.tensor = "stream"});
  });
  BOOST_TEST_INFO(all[1].sentence);
  BOOST_TEST((all[1].kind == error_kind::disagreement));
  BOOST_TEST(has(all[1].sentence, "called send of 5 fp32 to rank 1 'stream'"));
  BOOST_TEST(has(all[1].sentence, "called receive of 6 fp32 from rank 0 'stream'"));
  const auto kinds = endings(2, compare, [](communicator& group) {
    std::vector<float> narrow(4);
    std::vector<double> wide(4);
    if (group.rank() == 0) communicate::send(group, std::span(narrow), 1);
    if (group.rank() == 1) communicate::receive(group, std::span(wide), 0);
  });
  BOOST_TEST((kinds[1].kind == error_kind::disagreement));
}

BOOST_AUTO_TEST_CASE(counts_that_do_not_meet_are_named) {
  const auto all = endings(2, false, [](communicator& group) {
    const counts sent{1, group.rank() == 0 ? 3 : 1}, expected{1, 1};
    const counts mine = group.rank() == 0 ? sent : counts{2, 1};
    std::vector<float> from(static_cast<std::size_t>(sum_of(mine)));
    const counts coming = group.rank() == 0 ? counts{1, 2} : counts{2, 1};
    std::vector<float> to(static_cast<std::size_t>(sum_of(coming)));
    communicate::all_to_all(group, from, std::span(mine), std::span(to), std::span(coming));
  });
  BOOST_TEST_INFO(all[0].sentence);
  BOOST_TEST(
      has(all[0].sentence + all[1].sentence, "rank 0 sends 3 elements and rank 1 expects 2"));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_one_sentence) {
  ledger book;
  communicator alone(std::make_unique<one_rank>(), "data", book);
  std::vector<float> three(3), four(4);
  const counts counted{4};
  const auto says = [](auto call, const char* sentence) {
    try {
      call();
      BOOST_ERROR("nothing was thrown");
    } catch (const error& e) {
      BOOST_TEST((e.kind() == error_kind::bad_request));
      BOOST_TEST(std::string(e.what()) == sentence);
    }
  };
  says([&] { communicate::all_reduce(alone, three, std::span(four)); },
       "all_reduce on axis data rank 0: the result has 4 elements and 3 are asked for; make them "
       "equal");
  says([&] { communicate::all_gather(alone, three, std::span(four), std::span(counted)); },
       "all_gather on axis data rank 0: the piece has 3 elements and 4 are asked for; make them "
       "equal");
  says([&] { communicate::send(alone, std::span(three), 0); },
       "send on axis data: there is no other rank; the axis has extent 1");
  says([&] { communicate::broadcast(alone, std::span(three), 1); },
       "broadcast on axis data: the root is 1; it is one of the ranks 0 to 0");
  says([&] { communicate::all_reduce(alone, std::span(three), reduction_kind::log_sum_exp); },
       "all_reduce on axis data: 3 elements cut a pair; log_sum_exp merges pairs");
  says(
      [&] { communicate::all_reduce(alone, std::span(four).first(3), std::span(four).subspan(1)); },
      "all_reduce on axis data: input and result overlap; give the same span, or two apart");
}

BOOST_AUTO_TEST_CASE(an_error_in_flight_leaves_no_rank_waiting) {
  // Rank 0 throws while its started call still lends its buffer; nobody may touch it afterwards.
  const auto all = endings(3, false, [](communicator& group) {
    std::vector<float> values(1000);
    pending started = communicate::all_reduce(group, std::span(values), reduction_kind::sum,
                                              {.start_only = true});
    if (group.rank() == 0) throw error(error_kind::failed, "stopped");
    started.wait();
  });
  BOOST_TEST(all[0].sentence == "stopped");
}
