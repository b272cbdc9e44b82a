// SPDX-License-Identifier: Apache-2.0
// Faults put into tables, and which of them the check finds and where.
#include <boost/test/unit_test.hpp>
#include <utility>

#include "../train/refusal.hpp"
#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/schedule/svg.hpp"

using namespace tenon;
using enum pass_kind;

namespace {

using kind = schedule_fault_kind;

// A schedule without faults, changed on one rank.
template <class Change>
constexpr schedule_table changed(pipeline_schedule schedule, schedule_sizes sizes, std::size_t rank,
                                 Change change) {
  schedule_table table = make_schedule(schedule, sizes);
  change(table.ranks[rank]);
  return table;
}
template <std::size_t A, std::size_t B>
constexpr auto exchange = [](auto& entries) { std::swap(entries[A], entries[B]); };
template <std::size_t I>
constexpr auto erase = [](auto& entries) { entries.erase(entries.begin() + I); };
constexpr auto append(schedule_entry entry) {
  return [entry](auto& entries) { entries.push_back(entry); };
}
template <std::size_t I>
constexpr auto put(schedule_entry entry) {
  return [entry](auto& entries) { entries[I] = entry; };
}
constexpr auto one_f_one_b = pipeline_schedule::one_forward_one_backward;
constexpr schedule_sizes two_by_two{2, 2, 1};

// Sound tables have none.
static_assert(check_schedule(make_schedule(one_f_one_b, two_by_two)) == schedule_fault{});

// Rank 1 of 1f1b runs F0 B0 F1 B1.
constexpr auto swapped = [] { return changed(one_f_one_b, two_by_two, 1, exchange<0, 1>); };
static_assert(check_schedule(swapped()) == schedule_fault{kind::too_early, 1, 0, {backward, 0, 0}});
constexpr auto without_backward = [] { return changed(one_f_one_b, two_by_two, 1, erase<3>); };
static_assert(check_schedule(without_backward()) ==
              schedule_fault{kind::missing, 1, none_of_them, {backward, 1, 0}});
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0, erase<1>)).kind ==
              kind::too_early);
static_assert(check_schedule(changed(pipeline_schedule::gpipe, two_by_two, 0, erase<1>)) ==
              schedule_fault{kind::too_early, 0, 2, {backward, 1, 0}});
constexpr auto twice = [] { return changed(one_f_one_b, two_by_two, 0, append({forward, 1, 0})); };
static_assert(check_schedule(twice()) == schedule_fault{kind::repeated, 0, 4, {forward, 1, 0}});

// A backward is whole or in two, and in two in that order.
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 1,
                                     append({weight_gradient, 0, 0}))) ==
              schedule_fault{kind::repeated, 1, 4, {weight_gradient, 0, 0}});
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 1, append({input_gradient, 0, 0}))) ==
              schedule_fault{kind::repeated, 1, 4, {input_gradient, 0, 0}});
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 1, put<3>({input_gradient, 1, 0}))) ==
              schedule_fault{kind::missing, 1, none_of_them, {weight_gradient, 1, 0}});
// Rank 1 of zero-bubble runs F0 B0 F1 B1 W0 W1; a rank may keep a backward whole.
constexpr auto in_two = pipeline_schedule::zero_bubble;
static_assert(check_schedule(changed(in_two, two_by_two, 1, exchange<3, 5>)) ==
              schedule_fault{kind::too_early, 1, 3, {weight_gradient, 1, 0}});
static_assert(!check_schedule(changed(in_two, two_by_two, 1, [](auto& entries) {
                 entries[3].pass = backward;
                 entries.pop_back();
               })).found());

// What the sizes do not have.
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0, put<1>({forward, 2, 0}))) ==
              schedule_fault{kind::outside, 0, 1, {forward, 2, 0}});
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0, put<1>({forward, -1, 0}))).kind ==
              kind::outside);
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0, put<1>({forward, 1, 1}))).kind ==
              kind::outside);
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0, put<1>({forward, 1, -1}))).kind ==
              kind::outside);
static_assert(check_schedule(changed(one_f_one_b, two_by_two, 0,
                                     put<1>({static_cast<pass_kind>(4), 1, 0})))
                  .kind == kind::outside);
constexpr auto one_rank_short = [] {
  schedule_table table = make_schedule(one_f_one_b, two_by_two);
  table.ranks.pop_back();
  return table;
};
static_assert(check_schedule(one_rank_short()).kind == kind::sizes);
static_assert(check_schedule({{0, 1, 1}, {}}).kind == kind::sizes);
constexpr auto too_large = [] { return schedule_table{{1, 1, std::int64_t{1} << 62}, {{}}}; };
static_assert(check_schedule(too_large()).kind == kind::sizes);

// Rank 0 wants the gradient of 0 before it does the forward of 1, rank 1 the forward of 1 before
// the backward of 0: each order is right by itself.
constexpr auto crossed = [] {
  return schedule_table{two_by_two,
                        {{{forward, 0, 0}, {backward, 0, 0}, {forward, 1, 0}, {backward, 1, 0}},
                         {{forward, 0, 0}, {forward, 1, 0}, {backward, 0, 0}, {backward, 1, 0}}}};
};
static_assert(check_schedule(crossed()) == schedule_fault{kind::deadlock, 0, 1, {backward, 0, 0}});
static_assert(check_schedule(crossed(), 0) == check_schedule(crossed()));

// The messages of a link in another order than they are sent: of activations, and of gradients.
constexpr auto other_order = [] {
  return changed(pipeline_schedule::gpipe, two_by_two, 1, exchange<0, 1>);
};
static_assert(check_schedule(other_order()) ==
              schedule_fault{kind::order_of_arrival, 1, 0, {forward, 1, 0}});
static_assert(check_schedule(changed(pipeline_schedule::gpipe, two_by_two, 1, exchange<2, 3>)) ==
              schedule_fault{kind::order_of_arrival, 0, 2, {backward, 0, 0}});
// Another order that is the same on both ranks will do.
constexpr auto backwards = [] {
  return schedule_table{two_by_two,
                        {{{forward, 1, 0}, {forward, 0, 0}, {backward, 1, 0}, {backward, 0, 0}},
                         {{forward, 1, 0}, {backward, 1, 0}, {forward, 0, 0}, {backward, 0, 0}}}};
};
static_assert(!check_schedule(backwards(), 0).found());

// With two stages both neighbours are one rank. Rank 0 begins F0.0 F1.0 F0.1 F1.1.
constexpr auto interleaved = pipeline_schedule::interleaved;
constexpr schedule_sizes in_chunks{2, 2, 2};
static_assert(check_schedule(changed(interleaved, in_chunks, 0, exchange<0, 2>)) ==
              schedule_fault{kind::deadlock, 0, 0, {forward, 0, 1}});
static_assert(check_schedule(changed(interleaved, in_chunks, 0, exchange<2, 3>)) ==
              schedule_fault{kind::order_of_arrival, 0, 2, {forward, 1, 1}});

// With one stage all chunks are there.
constexpr auto alone = [](std::int32_t first_forward, std::int32_t first_backward) {
  return schedule_table{{1, 1, 2},
                        {{{forward, 0, first_forward},
                          {forward, 0, 1 - first_forward},
                          {backward, 0, first_backward},
                          {backward, 0, 1 - first_backward}}}};
};
static_assert(!check_schedule(alone(0, 1)).found());
static_assert(check_schedule(alone(1, 1)) ==
              schedule_fault{kind::too_early, 0, 0, {forward, 0, 1}});
static_assert(check_schedule(alone(0, 0)) ==
              schedule_fault{kind::too_early, 0, 2, {backward, 0, 0}});

// Blocking sends: enough on a line, not on the ring of several chunks.
constexpr auto ring = [] { return make_schedule(interleaved, {2, 4, 2}); };
static_assert(check_schedule(ring(), 0).kind == kind::blocked_send);
static_assert(!check_schedule(ring(), 1).found() && open_sends_needed(ring()) == 1);
static_assert(open_sends_needed(make_schedule(one_f_one_b, {4, 9, 1})) == 0);
static_assert(open_sends_needed(make_schedule(interleaved, {8, 23, 2})) == 4);

BOOST_AUTO_TEST_CASE(each_fault_is_one_sentence) {
  const auto sentence = [](const schedule_table& table, std::int64_t open_sends = any_open_sends) {
    return sentence_of(check_schedule(table, open_sends), table);
  };
  BOOST_TEST(sentence(crossed()) ==
             "the schedule's rank 0, entry 1, backward of microbatch 0: it waits for ever, as do "
             "the ranks it waits for; move it back, or what they wait for forward");
  BOOST_TEST(sentence(other_order()) ==
             "the schedule's rank 1, entry 0, forward of microbatch 1: another message from rank 0 "
             "arrives first; list the work on both ranks in one order");
  BOOST_TEST(sentence(without_backward()) ==
             "the schedule's rank 1 has no backward of microbatch 1; list it once");
  BOOST_TEST(sentence(twice()) ==
             "the schedule's rank 0, entry 4, forward of microbatch 1: it was done before; list it "
             "once");
  BOOST_TEST(sentence(swapped()) ==
             "the schedule's rank 1, entry 0, backward of microbatch 0: the work of this rank that "
             "it needs comes later; move it behind that");
  BOOST_TEST(sentence(changed(one_f_one_b, two_by_two, 0, put<1>({forward, 2, 0}))) ==
             "the schedule's rank 0, entry 1, forward of microbatch 2: there are 2 microbatches "
             "and 1 chunks, counted from 0; give one of these");
  BOOST_TEST(sentence(one_rank_short()) ==
             "the schedule has 2 stages, 2 microbatches, 1 chunks and lists for 1 ranks; give "
             "positive sizes and one list a stage");
  BOOST_TEST(sentence(ring(), 0).find(
                 "it waits for ever when sends block; leave more sends open") != std::string::npos);
  BOOST_TEST(sentence(ring()) == "the schedule has no fault");
  BOOST_TEST(refusal_of([] { require_sound(without_backward()); }) ==
             "2: the schedule's rank 1 has no backward of microbatch 1; list it once");
  BOOST_TEST(refusal_of([] { time_schedule(crossed()); }).starts_with("2: the schedule's rank 0"));
}

BOOST_AUTO_TEST_CASE(sizes_that_make_no_schedule_are_refused) {
  const auto refusal = [](pipeline_schedule schedule, schedule_sizes sizes) {
    return refusal_of([&] { make_schedule(schedule, sizes); });
  };
  BOOST_TEST(refusal(one_f_one_b, {2, 2, 2}) ==
             "2: --chunks 2 does not fit --schedule 1f1b; interleaved alone has several chunks; "
             "type --schedule interleaved, or --chunks 1");
  BOOST_TEST(refusal(one_f_one_b, {0, 2, 1}) ==
             "2: a pipeline of 0 stages, 2 microbatches and 1 chunks was asked for; each is at "
             "least 1; type 1 or more");
  BOOST_TEST(refusal(interleaved, {1 << 10, 1 << 10, 1 << 10}) ==
             "2: a pipeline of 1024 stages, 1024 microbatches and 1024 chunks was asked for; their "
             "product is at most 67108864; use fewer microbatches in a step");
  for (const auto schedule : {pipeline_schedule::gpipe, in_two}) {
    BOOST_TEST(refusal(schedule, {2, 2, 3}).starts_with("2: --chunks 3 does not fit"));
  }
  BOOST_TEST(refusal_of([] { time_schedule(ring(), {.forward = 0}); }) ==
             "2: time_schedule: a pass of no time was given; each takes 1 unit or more");
}

BOOST_AUTO_TEST_CASE(schedules_have_names) {
  for (const auto schedule : pipeline_schedules) {
    BOOST_TEST((schedule_named(name_of(schedule)) == schedule));
  }
  BOOST_TEST(!schedule_named("1F1B").has_value());
  BOOST_TEST(!schedule_named("").has_value());
}

}  // namespace
