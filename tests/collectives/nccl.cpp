// SPDX-License-Identifier: Apache-2.0
// The transport over NCCL, with a stand-in for NCCL and for streams: results against a serial loop,
// and what is called in which order. Nothing here runs on a GPU.
#include "tenon/communicate/nccl.hpp"

#include <algorithm>
#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "nccl_stand_in.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"

using namespace tenon_test;
using boost::unit_test::data::make;

namespace {

using stand_in_transport = basic_nccl_transport<stand_in_nccl>;
using answer = stand_in_nccl::result;
using notes = std::vector<std::string>;

/// The host's transport, whose calls are noted among those of NCCL.
class noting_transport final : public transport {
 public:
  noting_transport(std::unique_ptr<transport> inner, stand_in_nccl calls)
      : transport(inner->rank(), inner->size()), inner_(std::move(inner)), calls_(calls) {}
  std::unique_ptr<transport> split(int color, int key) override {
    return std::make_unique<noting_transport>(inner_->split(color, key), calls_);
  }
  void run(const request& call) override {
    note(call);
    inner_->run(call);
  }
  pending start(const request& call) override {
    note(call);
    return inner_->start(call);
  }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }

 private:
  void note(const request& call) { calls_.notes().push_back(joined("host ", name_of(call.call))); }

  std::unique_ptr<transport> inner_;
  stand_in_nccl calls_;
};

struct rank_of_test {
  std::unique_ptr<transport> host;
  stand_in_gpu& gpu;
  stand_in_nccl calls;

  std::unique_ptr<stand_in_transport> make(double timeout = 60) {
    return std::make_unique<stand_in_transport>(
        std::make_unique<noting_transport>(std::move(host), calls), gpu, calls, timeout);
  }
};

/// Ranks with a stand-in GPU each.
template <class Body>
void simulate_gpus(int ranks, Body body, stand_in_nccl::settings how = {},
                   std::chrono::microseconds compute_lag = {}) {
  simulate(ranks, [&](std::unique_ptr<transport> world) {
    stand_in_gpu gpu(joined("gpu-", world->rank()), compute_lag);
    const computes_on here(&gpu);
    rank_of_test rank{std::move(world), gpu, stand_in_nccl(how)};
    const stand_in_nccl calls = rank.calls;
    body(rank);
    const std::string misuse = calls.misuses().empty() ? "" : calls.misuses().front();
    if (!misuse.empty()) throw error(error_kind::failed, "misuse: " + misuse);
    expect(calls.open_groups() == 0, "groups end as they began");
  });
}

bool same(const notes& a, const notes& b) {
  if (a == b) return true;
  std::string text = "noted:";
  for (const std::string& line : a) text += "\n  " + line;
  throw error(error_kind::failed, text);
}

/// The sentence and kind of the error that the body throws.
template <class Body>
std::pair<std::string, error_kind> error_of(Body body) {
  try {
    body();
  } catch (const error& e) {
    return {e.what(), e.kind()};
  }
  throw error(error_kind::failed, "expected: an error");
}

/// The sentence is this one, or it is shown.
void expect_error(const std::pair<std::string, error_kind>& got, error_kind kind,
                  const std::string& sentence) {
  if (got.first != sentence) throw error(error_kind::failed, "another sentence: " + got.first);
  expect(got.second == kind, "the kind of the error", static_cast<int>(got.second));
}

std::int64_t number_of(const notes& all, const std::string& beginning) {
  return std::ranges::count_if(all, [&](const auto& line) { return line.starts_with(beginning); });
}

request reduction(void* memory, std::int64_t count) {
  request r;
  r.call = collective::all_reduce;
  r.element = element_kind::fp32;
  r.from = r.to = memory;
  r.count = count;
  r.axis = "data";
  r.tensor = "w";
  r.step = 3;
  return r;
}

constexpr stand_in_nccl::settings nothing_moves{.moves = false};

}  // namespace

BOOST_DATA_TEST_CASE(collectives_equal_a_serial_loop, make({1, 2, 3, 5}), ranks) {
  simulate_gpus(ranks, [](rank_of_test& rank) {
    ledger book;
    communicator group(rank.make(), "data", book);
    for (const std::int64_t length : {0, 1, 17}) check_every_collective(group, length);
    group.compare();
  });
}

BOOST_AUTO_TEST_CASE(a_part_of_the_ranks_has_a_communicator_of_its_own) {
  simulate_gpus(4, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    ledger book;
    communicator group(rank.make(), "all", book);
    {
      const auto part = group.split(group.rank() % 2, group.rank(), "part");
      check_every_collective(*part, 17);
    }
    expect(number_of(calls.notes(), "begin") >= 2, "communicators");
    check_every_collective(group, 5);
  });
}

BOOST_AUTO_TEST_CASE(comparing_before_every_call_changes_nothing) {
  simulate_gpus(3, [](rank_of_test& rank) {
    ledger book;
    communicator group(rank.make(), "data", book, {.compare_every_call = true});
    check_every_collective(group, 17);
  });
}

// Slow streams: a call that does not wait for the rank's own work, or work that does not wait for
// the call, comes to other results.
BOOST_AUTO_TEST_CASE(streams_wait_for_each_other) {
  using std::chrono::microseconds;
  for (const auto& [compute, own] : {std::pair{microseconds(2000), microseconds(0)},
                                     std::pair{microseconds(0), microseconds(2000)}}) {
    simulate_gpus(
        3,
        [](rank_of_test& rank) {
          ledger book;
          communicator group(rank.make(), "data", book);
          for (const bool started : {false, true}) {
            buffer<float> values(17);
            copy_in(values.span(), std::span<const float>(std::vector<float>(17, 1.0F)));
            pending call = communicate::all_reduce(group, values.span(), reduction_kind::sum,
                                                   {.start_only = started});
            call.wait();
            std::vector<float> host(17);
            copy_out(std::span(host), values.span());
            for (const float v : host) expect(v == 3.0F, "a sum");
            // In place, the input is kept aside first.
            buffer<float> turned(3);
            const auto me = static_cast<float>(group.rank());
            const counts one{1, 1, 1};
            copy_in(turned.span(), std::span<const float>(std::vector<float>{me, me, me}));
            communicate::all_to_all(group, turned.span(), std::span(one), turned.span(),
                                    std::span(one), {.start_only = started})
                .wait();
            std::vector<float> came(3);
            copy_out(std::span(came), turned.span());
            expect(came == std::vector<float>{0, 1, 2}, "all_to_all in place");
          }
        },
        {.lag = own}, compute);
  }
}

BOOST_AUTO_TEST_CASE(a_communicator_is_made_in_this_order) {
  simulate_gpus(
      2,
      [](rank_of_test& rank) {
        stand_in_nccl calls = rank.calls;
        const bool first = rank.host->rank() == 0;
        const auto group = rank.make();
        notes right{"host all_gather"};
        if (first) right.emplace_back("make_unique_id");
        right.insert(right.end(),
                     {"host broadcast", "host barrier", first ? "begin 0 of 2" : "begin 1 of 2"});
        same(calls.notes(), right);
      },
      nothing_moves);
}

BOOST_AUTO_TEST_CASE(a_call_is_queued_between_two_events) {
  simulate_gpus(
      2,
      [](rank_of_test& rank) {
        stand_in_nccl calls = rank.calls;
        const auto group = rank.make();
        calls.notes().clear();
        float memory = 0;
        group->run(reduction(&memory, 20));
        const notes queued{"record e1 on compute", "s1 waits for e1",
                           "all_reduce 20 fp32 sum on s1", "record e2 on s1"};
        notes all = queued;
        all.emplace_back("compute waits for e2");
        same(calls.notes(), all);

        // Started: the compute stream waits when the rank does. Events are used again, once the
        // last call that used them is not the group's last any more.
        calls.notes().clear();
        pending call = group->start(reduction(&memory, 7));
        same(calls.notes(), {"record e3 on compute", "s1 waits for e3",
                             "all_reduce 7 fp32 sum on s1", "record e4 on s1"});
        calls.notes().clear();
        call.wait();
        same(calls.notes(), {"compute waits for e4"});
        for (int i = 0; i < 100; ++i) group->run(reduction(&memory, 7));
        expect(calls.events_made() <= 6, "events are used again", calls.events_made());
      },
      nothing_moves);
}

BOOST_AUTO_TEST_CASE(unequal_counts_are_one_group) {
  simulate_gpus(
      3,
      [](rank_of_test& rank) {
        stand_in_nccl calls = rank.calls;
        const int me = rank.host->rank();
        const auto group = rank.make();
        std::byte memory[64];
        calls.count_addresses_from(memory);
        const auto of_nccl = [&](const request& r) {
          calls.notes().clear();
          group->run(r);
          notes some = calls.notes();
          std::erase_if(some, [](const std::string& line) {
            return line.starts_with("record") || line.find("waits") != std::string::npos;
          });
          return some;
        };
        const counts cut{2, 0, 3};
        request r;
        r.element = element_kind::int32;
        r.call = collective::all_gather;
        r.from = memory + 40;
        r.to = memory;
        r.to_counts = cut;
        same(of_nccl(r), {"group_start",
                          joined("broadcast 2 int32 from 0", me == 0 ? " +40" : " +0", " +0 on s1"),
                          joined("broadcast 3 int32 from 2", me == 2 ? " +40" : " +8", " +8 on s1"),
                          "group_end"});
        r = {};
        r.element = element_kind::int32;
        r.call = collective::reduce_scatter;
        r.from = memory;
        r.to = memory + 40;
        r.from_counts = cut;
        same(of_nccl(r),
             {"group_start",
              joined("reduce 2 int32 sum to 0 +0", me == 0 ? " +40" : " null", " on s1"),
              joined("reduce 3 int32 sum to 2 +8", me == 2 ? " +40" : " null", " on s1"),
              "group_end"});
        const counts equal{2, 2, 2};
        r.from_counts = equal;
        same(of_nccl(r), {"reduce_scatter 2 int32 sum +0 +40 on s1"});
        r = {};
        r.element = element_kind::byte;
        r.call = collective::all_to_all;
        r.from = memory;
        r.to = memory + 40;
        // Each sends the next one nothing, so each gets nothing from the one before.
        counts sent(3, 2), came(3, 2);
        const int next = (me + 1) % 3, previous = (me + 2) % 3;
        sent[static_cast<std::size_t>(next)] = came[static_cast<std::size_t>(previous)] = 0;
        r.from_counts = sent;
        r.to_counts = came;
        notes all = of_nccl(r);
        expect(all.size() == 5 && all[0] == "copy 2 on s1" && all[1] == "group_start" &&
                   all[4] == "group_end",
               "an all_to_all");
        expect(number_of(all, joined("send 2 byte to ", previous)) == 1 &&
                   number_of(all, joined("receive 2 byte from ", next)) == 1,
               "to and from the right ranks");
      },
      nothing_moves);
}

BOOST_AUTO_TEST_CASE(counts_beyond_an_int_pass_whole) {
  simulate_gpus(
      2,
      [](rank_of_test& rank) {
        stand_in_nccl calls = rank.calls;
        const int me = rank.host->rank();
        const auto group = rank.make();
        // No memory is behind the addresses: nothing is moved.
        constexpr std::uintptr_t base = std::uintptr_t{1} << 40;
        void* const memory = reinterpret_cast<void*>(base);
        calls.count_addresses_from(memory);
        const auto noted = [&](const request& r, const std::string& line) {
          calls.notes().clear();
          group->run(r);
          if (number_of(calls.notes(), line) != 1) same(calls.notes(), {line});
        };
        constexpr std::int64_t many = 3'293'642'752;  // 64 x 1024 x 50257
        noted(reduction(memory, many), "all_reduce 3293642752 fp32 sum +0 +0 on s1");
        request r = reduction(memory, many);
        r.call = collective::broadcast;
        r.peer = 1;
        noted(r, "broadcast 3293642752 fp32 from 1 +0 +0 on s1");
        const counts cut{many, many + 1};
        r = {};
        r.call = collective::all_gather;
        r.element = element_kind::bf16;
        r.from = r.to = memory;
        r.to_counts = cut;
        noted(r, joined("broadcast 3293642753 bf16 from 1", me == 1 ? " +0" : " +6587285504",
                        " +6587285504 on s1"));
        r = reduction(memory, many);
        r.call = me == 0 ? collective::send : collective::receive;
        r.peer = 1 - me;
        noted(r, me == 0 ? "send 3293642752 fp32 to 1 +0" : "receive 3293642752 fp32 from 0 ");
      },
      nothing_moves);
}

BOOST_AUTO_TEST_CASE(host_memory_goes_over_the_host) {
  simulate_gpus(2, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    ledger book;
    communicator group(rank.make(), "data", book);
    calls.notes().clear();
    std::vector<double> values(3, 1.0);
    communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.where = place::host});
    expect(values[2] == 2.0, "a sum of host memory");
    communicate::barrier(group);
    group.compare();
    expect(number_of(calls.notes(), "host") == static_cast<std::int64_t>(calls.notes().size()) &&
               calls.notes().size() >= 3,
           "calls of the host alone");
  });
}

// A started message is queued while the rank waits in a call of the host: the first one needs both.
BOOST_AUTO_TEST_CASE(what_was_started_goes_on_in_calls_of_the_host) {
  simulate_gpus(2, [](rank_of_test& rank) {
    ledger book;
    communicator group(rank.make(), "pipeline", book);
    buffer<float> values(4);
    copy_in(values.span(),
            std::span<const float>(std::vector<float>(4, group.rank() == 0 ? 5.0F : 0.0F)));
    if (group.rank() == 0) {
      pending sent = communicate::send(group, values.span(), 1, {.start_only = true});
      communicate::barrier(group);
      sent.wait();
    } else {
      communicate::receive(group, values.span(), 0);
      communicate::barrier(group);
      std::vector<float> host(4);
      copy_out(std::span(host), values.span());
      expect(host[3] == 5.0F, "a message");
    }
  });
}

BOOST_AUTO_TEST_CASE(two_ranks_on_one_gpu_are_refused_by_all) {
  simulate(3, [](std::unique_ptr<transport> world) {
    stand_in_gpu gpu(world->rank() == 0 ? "gpu-a" : "gpu-b");
    rank_of_test rank{std::move(world), gpu, {}};
    stand_in_nccl calls = rank.calls;
    expect_error(error_of([&] { rank.make(); }), error_kind::bad_request,
                 "nccl: ranks 1 and 2 of 3 are on one GPU (gpu-b), and NCCL takes one rank a GPU; "
                 "give each rank a GPU of its own, or type --transport staged");
    same(calls.notes(), {"host all_gather"});
  });
}

BOOST_AUTO_TEST_CASE(an_id_that_cannot_be_made_fails_on_all_ranks) {
  simulate_gpus(2, [](rank_of_test& rank) {
    rank.calls.fail("make_unique_id", answer::internal_error);
    expect_error(error_of([&] { rank.make(); }), error_kind::failed,
                 "nccl: rank 0 of 2 could not make the id of a communicator: internal error of the "
                 "stand-in");
    expect(number_of(rank.calls.notes(), "begin") == 0, "nothing is begun");
  });
}

BOOST_AUTO_TEST_CASE(a_communicator_that_cannot_be_made_is_an_error) {
  simulate_gpus(2, [](rank_of_test& rank) {
    const std::string me = joined("rank ", rank.host->rank());
    stand_in_nccl calls = rank.calls;
    calls.fail("begin", answer::internal_error);
    expect_error(error_of([&] { rank.make(); }), error_kind::failed,
                 me + " of axis of a split (2 ranks) at step 0: making a communicator failed in "
                      "NCCL: internal error of the stand-in; look at what the other ranks print, "
                      "NCCL_DEBUG=WARN tells more");
    same({calls.notes().back()}, {"free s1"});
  });
  simulate_gpus(2, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    calls.fail_later(answer::remote_error, 0);
    expect(error_of([&] { rank.make(); }).second == error_kind::lost_rank, "a lost rank");
    expect(number_of(calls.notes(), "abort") == 1, "what was begun is aborted");
  });
}

// In a group a call fails: the group still ends, the communicator is aborted, and stays so.
BOOST_AUTO_TEST_CASE(a_call_that_fails_aborts) {
  for (const char* name : {"broadcast", "group_end", "group_start"}) {
    simulate_gpus(2, [&](rank_of_test& rank) {
      const std::string me = joined("rank ", rank.host->rank());
      stand_in_nccl calls = rank.calls;
      const auto group = rank.make();
      calls.fail(name, answer::internal_error);
      const counts cut{1, 2};
      float memory[3] = {};
      request r;
      r.call = collective::all_gather;
      r.element = element_kind::fp32;
      r.from = r.to = memory;
      r.to_counts = cut;
      r.axis = "tensor";
      r.tensor = "w";
      expect_error(error_of([&] { group->run(r); }), error_kind::failed,
                   me + " of axis tensor (2 ranks) at step 0: all_gather of 3 fp32 'w' failed in "
                        "NCCL: internal error of the stand-in; look at what the other ranks print, "
                        "NCCL_DEBUG=WARN tells more");
      if (std::string(name) == "group_start") {
        calls.group_end();  // NCCL did not begin it
      }
      expect(calls.open_groups() == 0, "the group has ended");
      same({calls.notes().back()}, {std::string(name) == "group_start" ? "group_end" : "abort"});
      const auto again = error_of([&] { group->run(r); });
      expect(again.first.starts_with("a communicator of NCCL was given up after an error: " + me +
                                     " of axis tensor"),
             "it is of no more use");
    });
  }
}

// While the device works, and after the call was queued.
BOOST_AUTO_TEST_CASE(an_error_that_comes_later_aborts_whoever_waits) {
  const std::string sentence =
      " of axis data (2 ranks) at step 3: all_reduce (sum) of 20 fp32 'w' failed in NCCL: remote "
      "error of the stand-in; look at what the other ranks print, NCCL_DEBUG=WARN tells more";
  for (const int way : {0, 1, 2}) {
    simulate_gpus(
        2,
        [&](rank_of_test& rank) {
          const std::string me = joined("rank ", rank.host->rank());
          stand_in_nccl calls = rank.calls;
          const auto group = rank.make();
          float memory = 0;
          pending call = group->start(reduction(&memory, 20));
          // Synchronizing asks more than once: the first answer is still a good one.
          calls.fail_later(answer::remote_error, way == 2 ? 1 : 0);
          // The device does not come to its work before the error is there.
          std::atomic<bool> go{false};
          rank.gpu.stream().push([&] { go.wait(false); });
          const auto got = error_of([&] {
            if (way == 0) call.wait();
            if (way == 1) call.done();
            if (way == 2) {
              pending late = group->start(reduction(&memory, 20));
              group->synchronize(60);
            }
          });
          go = true;
          go.notify_all();
          rank.gpu.synchronize();
          expect_error(got, error_kind::lost_rank, me + sentence);
          same({calls.notes().back()}, {"abort"});
          expect_error(error_of([&] {
                         call.wait();
                         call = group->start(reduction(&memory, 1));
                       }),
                       error_kind::failed,
                       "a communicator of NCCL was given up after an error: " + me + sentence);
        },
        nothing_moves);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_stays_away_is_named_in_time) {
  simulate_gpus(2, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    const auto group = rank.make(0.2);
    if (group->rank() == 0) {
      float memory = 0;
      expect_error(error_of([&] { group->run(reduction(&memory, 20)); }), error_kind::timed_out,
                   "rank 0 of axis data (2 ranks) has waited 0 s at step 3 in all_reduce (sum) of "
                   "20 fp32 'w': another rank of this axis stays away; look at what the others "
                   "print, or allow more with --timeout");
      same({calls.notes().back()}, {"abort"});
    }
  });
}

BOOST_AUTO_TEST_CASE(synchronizing_waits_for_the_device) {
  simulate_gpus(2,
                [](rank_of_test& rank) {
                  const auto group = rank.make();
                  group->synchronize(1);  // nothing was called
                  buffer<float> values(1000);
                  copy_in(values.span(), std::span<const float>(std::vector<float>(1000, 1.0F)));
                  pending call = group->start(reduction(values.data(), 1000));
                  group->synchronize(60);
                  expect(call.done(), "done after synchronizing");
                  expect(values[999] == 2.0F, "the sum is there");
                },
                {.lag = std::chrono::milliseconds(5)});
}

// Once `done` has said so the device has done it: the rank may use the memory without a wait.
BOOST_AUTO_TEST_CASE(what_is_done_has_arrived) {
  simulate_gpus(2,
                [](rank_of_test& rank) {
                  const auto group = rank.make();
                  buffer<float> values(1000);
                  copy_in(values.span(), std::span<const float>(std::vector<float>(1000, 1.0F)));
                  pending call = group->start(reduction(values.data(), 1000));
                  while (!call.done()) std::this_thread::yield();
                  expect(values[0] == 2.0F && values[999] == 2.0F, "the sum is there");
                },
                {.lag = std::chrono::milliseconds(5)});
}

BOOST_AUTO_TEST_CASE(it_ends_in_order_and_aborts_while_an_error_unwinds) {
  simulate_gpus(2, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    auto group = rank.make();
    calls.notes().clear();
    group.reset();
    same(calls.notes(), {"finalize", "destroy", "free s1"});
  });
  simulate_gpus(2, [](rank_of_test& rank) {
    stand_in_nccl calls = rank.calls;
    error_of([&] {
      const auto group = rank.make();
      calls.notes().clear();
      throw error(error_kind::failed, "something else");
    });
    same(calls.notes(), {"abort", "free s1"});
  });
}

BOOST_AUTO_TEST_CASE(what_nccl_would_round_is_refused) {
  simulate_gpus(
      2,
      [](rank_of_test& rank) {
        const auto group = rank.make();
        float memory = 0;
        request r = reduction(&memory, 2);
        r.element = element_kind::bf16;
        expect_error(error_of([&] { group->run(r); }), error_kind::bad_request,
                     "nccl: a reduction of bf16 by sum was given to the transport; call it through "
                     "a communicator, which merges it itself");
      },
      nothing_moves);
}
