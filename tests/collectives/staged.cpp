// SPDX-License-Identifier: Apache-2.0
// Every collective on memory of emulated devices, staged through the host: host code that touches
// that memory ends the test.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/communicate/staged.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/emulated_device.hpp"

using namespace tenon_test;
using boost::unit_test::data::make;

namespace {

/// Each rank on a device of its own.
template <class Body>
void simulate_devices(int ranks, const communicator_options& how, Body body,
                      const simulated_options& options = {}) {
  simulate(
      ranks,
      [&](std::unique_ptr<transport> world) {
        emulated_device own(std::size_t{1} << 24);
        const computes_on here(&own);
        {
          ledger book;
          communicator group(std::make_unique<staged_transport>(std::move(world)), "data", book,
                             how);
          body(group);
          group.compare();
        }
        own.check();
      },
      options);
}

}  // namespace

BOOST_DATA_TEST_CASE(collectives_equal_a_serial_loop, make({1, 2, 3, 5, 7}), ranks) {
  simulate_devices(ranks, {}, [](communicator& group) {
    for (const std::int64_t length : {0, 1, 17}) check_every_collective(group, length);
  });
}

BOOST_AUTO_TEST_CASE(a_low_count_limit_changes_nothing) {
  simulate_devices(3, {}, [](communicator& group) { check_every_collective(group, 20); },
                   {.count_limit = 7});
}

BOOST_AUTO_TEST_CASE(comparing_before_every_call_changes_nothing) {
  simulate_devices(3, {.compare_every_call = true},
                   [](communicator& group) { check_every_collective(group, 17); });
}

BOOST_AUTO_TEST_CASE(a_part_of_the_ranks_is_staged_too) {
  simulate_devices(4, {}, [](communicator& group) {
    const auto part = group.split(group.rank() % 2, group.rank(), "part");
    check_every_collective(*part, 17);
  });
}

// Memory of the host is passed on as it is, by a rank that has a device.
BOOST_AUTO_TEST_CASE(host_memory_is_not_staged) {
  simulate_devices(3, {.sums = sum_order::fixed}, [](communicator& group) {
    std::vector<double> values(5, 1.0 + group.rank());
    communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.where = place::host});
    for (const double v : values) expect(v == 6.0, "a sum of host memory");
    std::vector<std::int64_t> token{group.rank() == 1 ? 42 : 0};
    communicate::broadcast(group, std::span(token), 1, {.where = place::host});
    expect(token[0] == 42, "a broadcast of host memory", token[0]);
  });
}

// Once `done` has said so, the result is there: without a wait.
BOOST_DATA_TEST_CASE(what_is_done_has_arrived, make({false, true}), in_order) {
  simulate_devices(3, {}, [&](communicator& group) {
    const counts cut{2, 2, 2};
    const auto check = [&]<class T>(T one) {
      buffer<T> from(6), to = buffer<T>::zeros(2);
      copy_in(from.span(), std::span<const T>(std::vector<T>(6, one)));
      pending call = communicate::reduce_scatter(group, from.span(), to.span(), std::span(cut),
                                                 reduction_kind::sum, {.start_only = true});
      while (!call.done()) std::this_thread::yield();
      std::vector<T> host(2);
      copy_out(std::span(host), to.span());
      for (const T v : host) expect(static_cast<float>(v) == 3.0F, "a sum without a wait");
    };
    if (in_order) {
      check(bf16(1.0F));
    } else {
      check(1.0F);
    }
  });
}
