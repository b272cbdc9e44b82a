// SPDX-License-Identifier: Apache-2.0
// What overlaps is hidden: on slow links, with work that sleeps, so that neither needs a core. A
// run is timed three ways: work alone (free links), communication alone (no work), and both. The
// time of both must lie below the sum by the stated share of the smaller one.
//
// Each piece of work and each call lasts 18 ms, a run 40 to 150 ms. Without disturbance 3 / 4 or
// more of the smaller are hidden; 2 / 5 are asked for, so that the ranks may wake 6 ms late at each
// of the four meetings of a run, more than they do when only one of the two is run. The three ways
// take turns, and the median of 5 runs counts.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "layers.hpp"
#include "tenon/communicate/all_gather.hpp"
#include "tenon/communicate/all_reduce.hpp"
#include "tenon/communicate/barrier.hpp"
#include "tenon/communicate/delayed.hpp"
#include "tenon/kernel/overlap/exchange.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/parallel/parameter_store.hpp"

using namespace tenon_test;

namespace {

using seconds = std::chrono::duration<double>;
using clock_type = std::chrono::steady_clock;

constexpr double hidden_share = 0.4;
constexpr int runs = 5;
constexpr double piece = 0.018;  // of work, or a call

void work_for(double duration) {
  if (duration > 0) std::this_thread::sleep_for(seconds(duration));
}

// Seconds from when all ranks are here until all are done with `body`.
double timed(communicator& everyone, const std::function<void()>& body) {
  const auto wait_for_all = [&] { everyone.group().run({.bookkeeping = true, .axis = "all"}); };
  wait_for_all();
  const auto begin = clock_type::now();
  body();
  wait_for_all();
  return seconds(clock_type::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct measured {
  double work = 0;
  double communication = 0;
  double both = 0;

  double hidden() const { return (work + communication - both) / std::min(work, communication); }
  std::string text() const {
    return joined("work ", work * 1e3, " ms, communication ", communication * 1e3, " ms, both ",
                  both * 1e3, " ms, hidden ", hidden() * 100, " % of the smaller");
  }
};

// Runs `body(world, work seconds)` on simulated ranks whose links cost `cost` and whose pieces of
// work last `work`; it returns what it took.
measured measure(int size, link_cost cost, double work,
                 const std::function<double(std::unique_ptr<transport>, double)>& body) {
  const auto once = [&](link_cost links_cost, double work_seconds) {
    const delayed_links links([=](int, int) { return links_cost; });
    double taken = 0;
    simulate(size, [&](std::unique_ptr<transport> world) {
      const bool first = world->rank() == 0;
      const double mine =
          body(std::make_unique<delayed_transport>(std::move(world), links), work_seconds);
      if (first) taken = mine;
    });
    return taken;
  };
  std::vector<double> times[3];
  for (int i = 0; i < runs; ++i) {
    times[0].push_back(once({}, work));
    times[1].push_back(once(cost, 0));
    times[2].push_back(once(cost, work));
  }
  return {median(times[0]), median(times[1]), median(times[2])};
}

void check(const char* what, const measured& found) {
  BOOST_TEST_MESSAGE(what << ": " << found.text());
  BOOST_TEST_CONTEXT(what << ": " << found.text()) { BOOST_TEST(found.hidden() >= hidden_share); }
}

// A store of some units of one parameter each, on ranks of the data axis.
constexpr int units = 4;
constexpr std::int64_t elements = 4000;

struct stored_units {
  using parameter_type = parameter<fp64, dims<hidden>, on_grid<replicated, replicated>>;
  built_with<> all;
  std::vector<std::unique_ptr<parameter_type>> parameters;
  std::unique_ptr<parameter_store<fp64>> store;

  stored_units(transport& world, shard_settings settings) : all(world, grid({world.size(), 1})) {
    all.sizes.set<hidden>(elements);
    std::vector<std::vector<any_parameter<fp64>*>> of_units;
    for (int u = 0; u < units; ++u) {
      parameters.push_back(std::make_unique<parameter_type>(
          all.context(""), parameter_declaration{joined("unit", u)}));
      of_units.push_back({parameters.back().get()});
    }
    store = std::make_unique<parameter_store<fp64>>(of_units, all.group.ledger(), settings);
    store->initialise(1);
  }
};

// Backward of all units, as a stage runs it.
measured backward_and_reduction(shards stage, bool overlap) {
  // With two ranks an all-reduce has two steps, a reduce-scatter one.
  const double per_step = stage == shards::none ? piece / 2 : piece;
  return measure(2, {per_step, 1e12}, piece, [&](std::unique_ptr<transport> world, double work) {
    stored_units here(*world, {.stage = stage, .overlap = overlap});
    return timed(here.all.group.everyone(), [&] {
      here.store->begin_step();
      for (std::size_t u = units; u-- > 0;) {
        here.store->begin_backward(u);
        work_for(work);
        here.store->end_backward(u);
      }
      here.store->finish_step();
    });
  });
}

// Forward of all units, whose weights come and go, as a stage runs it.
measured forward_and_gathers(bool overlap) {
  return measure(2, {piece, 1e12}, piece, [&](std::unique_ptr<transport> world, double work) {
    stored_units here(*world, {.stage = shards::parameters, .overlap = overlap});
    return timed(here.all.group.everyone(), [&] {
      for (std::size_t u = 0; u < units; ++u) {
        here.store->need(u);
        if (overlap && u + 1 < units) here.store->fetch(u + 1);
        work_for(work);
        here.store->release(u);
      }
    });
  });
}

constexpr std::int64_t rows_each = 4;
constexpr std::int64_t width = 3;

kernel::row_pieces pieces_of(int ranks) {
  return {1, 1, partition::balanced(ranks * rows_each, ranks)};
}

// Some gathers with products: the own piece is worked on while the others' come.
measured gathers_and_products(int size, int layers) {
  return measure(size, {piece, 1e12}, piece, [&](std::unique_ptr<transport> world, double work) {
    built_with<> all(*world, grid({1, size}));
    auto& line = all.group.on<axis::tensor>();
    const buffer<fp64> own = buffer<fp64>::zeros(rows_each * width);
    buffer<fp64> whole(size * rows_each * width);
    return timed(all.group.everyone(), [&] {
      for (int i = 0; i < layers; ++i) {
        kernel::gather_in_pieces(line, pieces_of(size), view_of(own.data(), rows_each, width),
                                 view_of(whole.data(), size * rows_each, width),
                                 [&](int, matrix_view<const fp64>) { work_for(work); });
      }
    });
  });
}

// Some products with scatters: the others' pieces leave while the next are worked on.
measured products_and_scatters(int size, int layers) {
  return measure(size, {piece, 1e12}, piece, [&](std::unique_ptr<transport> world, double work) {
    built_with<> all(*world, grid({1, size}));
    auto& line = all.group.on<axis::tensor>();
    buffer<fp64> own(rows_each * width);
    return timed(all.group.everyone(), [&] {
      for (int i = 0; i < layers; ++i) {
        kernel::scatter_in_pieces(
            line, pieces_of(size), view_of(own.data(), rows_each, width),
            [&](int, matrix_view<fp64> to) {
              std::fill_n(to.data, to.size(), 1.0);
              work_for(work);
            },
            [] {});
      }
    });
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_are_reduced_during_backward) {
  check("all-reduce", backward_and_reduction(shards::none, true));
  check("reduce-scatter", backward_and_reduction(shards::gradients, true));
}
BOOST_AUTO_TEST_CASE(parameters_are_gathered_one_unit_ahead) {
  check("gathers", forward_and_gathers(true));
}
BOOST_AUTO_TEST_CASE(products_run_while_pieces_travel) {
  check("gather", gathers_and_products(2, 3));
  check("scatter", products_and_scatters(2, 3));
  check("gather, 4 ranks", gathers_and_products(4, 2));
  check("scatter, 4 ranks", products_and_scatters(4, 2));
}
// The measure itself: what does not overlap hides nothing.
BOOST_AUTO_TEST_CASE(nothing_is_hidden_without_overlap) {
  BOOST_TEST(backward_and_reduction(shards::gradients, false).hidden() < hidden_share / 2);
  BOOST_TEST(forward_and_gathers(false).hidden() < hidden_share / 2);
}

// The links are what they are said to be: never faster, for each pair by its own numbers.
BOOST_AUTO_TEST_CASE(links_take_their_time) {
  const delayed_links links([](int from, int to) {
    return link_cost{from == 2 || to == 2 ? 0.03 : 0.005, 1e6};
  });
  std::atomic<int> done = 0;
  simulate(3, [&](std::unique_ptr<transport> world) {
    delayed_transport slow(std::move(world), links);
    ledger book;
    communicator line(slow.split(0, -slow.rank()), "data", book);  // rank 0 is 2 of the run
    const int me = line.rank();
    const auto took = [&](const std::function<void()>& body) {
      slow.run({.bookkeeping = true, .axis = "all"});
      const auto begin = clock_type::now();
      body();
      return seconds(clock_type::now() - begin).count();
    };
    std::vector<double> values(1000, 1.0 + me);  // 8 kB: 8 ms
    const std::span<double> all(values);
    // Between the fast two, two messages follow one another on the link, whoever waits first.
    const double fast = took([&] {
      if (me == 0) return;
      std::vector<pending> calls;
      for (int i = 0; i < 2; ++i) {
        calls.push_back(me == 1 ? communicate::send(line, all, 2, {.start_only = true})
                                : communicate::receive(line, all, 1, {.start_only = true}));
      }
      require(!calls[0].done(), "a message was there before its time");
    });
    require(me == 0 || fast >= 2 * (0.005 + 0.008), "two messages took ", fast, " s");
    // With the slow one: two ring steps of a third each.
    std::vector<double> summed(999, 1.0);
    const double reduced = took([&] { communicate::all_reduce(line, std::span<double>(summed)); });
    require(reduced >= 4 * (0.03 + 333 * 8 / 1e6), "a sum took ", reduced, " s");
    require(summed[0] == 3, "the sum is ", summed[0]);
    // What is under way goes on while a rank is busy.
    std::vector<double> whole(9);
    const std::vector<double> mine(3, me);
    took([&] {
      pending call = communicate::all_gather(line, std::span<const double>(mine),
                                             std::span<double>(whole), {.start_only = true});
      std::this_thread::sleep_for(seconds(0.2));
      const auto ready = clock_type::now();
      call.wait();
      const double waited = seconds(clock_type::now() - ready).count();
      require(whole[8] == 2 && waited < 2 * 0.03, "after the work a call still took ", waited,
              " s");
    });
    ++done;
  });
  BOOST_TEST(done == 3);
}
