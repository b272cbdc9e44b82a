// SPDX-License-Identifier: Apache-2.0
// Larger schedules, and the check against a slow one that is written another way.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <ctime>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "every_size.hpp"
#include "tenon/parallel/schedule/svg.hpp"

using namespace tenon;

namespace {

// A message: forward or not, its microbatch, the virtual stage that made it.
using message = std::tuple<bool, std::int64_t, std::int64_t>;

// Whether a table is sound, from its definition, without regard to time.
class slow_check {
 public:
  explicit slow_check(const schedule_table& table) : table_(table), sizes_(table.sizes) {}

  bool sound(bool blocking) const {
    for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank) {
      if (!complete(table_.ranks[rank])) return false;
    }
    if (sizes_.stages == 1) return runs_alone();
    return blocking ? in_order() && meets() : in_order() && runs();
  }

 private:
  bool complete(const std::vector<schedule_entry>& entries) const {
    std::size_t counted = 0;
    for (std::int32_t m = 0; m < sizes_.microbatches; ++m) {
      for (std::int32_t c = 0; c < sizes_.chunks; ++c) {
        std::vector<std::size_t> at[4];
        for (std::size_t i = 0; i < entries.size(); ++i) {
          if (entries[i].microbatch != m || entries[i].chunk != c) continue;
          at[static_cast<std::size_t>(entries[i].pass)].push_back(i);
          ++counted;
        }
        const auto& [f, whole, input, weight] = at;
        if (f.size() != 1 || input.size() != weight.size() || whole.size() + input.size() != 1) {
          return false;
        }
        if (whole.size() == 1 ? whole[0] < f[0] : input[0] < f[0] || weight[0] < input[0]) {
          return false;
        }
      }
    }
    return counted == entries.size();
  }

  std::int64_t stage(std::size_t rank, const schedule_entry& e) const {
    return e.chunk * sizes_.stages + static_cast<std::int64_t>(rank);
  }
  std::vector<message> made(std::size_t rank, const schedule_entry& e) const {
    if (e.pass == pass_kind::weight_gradient) return {};
    return {{e.pass == pass_kind::forward, e.microbatch, stage(rank, e)}};
  }
  std::vector<message> needed(std::size_t rank, const schedule_entry& e) const {
    const std::int64_t s = stage(rank, e);
    if (e.pass == pass_kind::forward && s > 0) return {{true, e.microbatch, s - 1}};
    const bool back = e.pass == pass_kind::backward || e.pass == pass_kind::input_gradient;
    if (back && s + 1 < sizes_.stages * sizes_.chunks) return {{false, e.microbatch, s + 1}};
    return {};
  }
  bool is_received(const message& m) const {
    const auto [is_forward, microbatch, s] = m;
    return is_forward ? s + 1 < sizes_.stages * sizes_.chunks : s > 0;
  }

  bool runs_alone() const {
    std::set<message> there;
    for (const auto& e : table_.ranks[0]) {
      for (const auto& m : needed(0, e)) {
        if (there.count(m) == 0) return false;
      }
      for (const auto& m : made(0, e)) there.insert(m);
    }
    return true;
  }

  // Each link's messages in the order of sending are those in the order of receiving.
  bool in_order() const {
    std::map<std::tuple<bool, std::int64_t>, std::vector<message>> sent, received;
    for (std::size_t rank = 0; rank < table_.ranks.size(); ++rank) {
      for (const auto& e : table_.ranks[rank]) {
        for (const auto& m : made(rank, e)) {
          if (is_received(m)) sent[{std::get<0>(m), static_cast<std::int64_t>(rank)}].push_back(m);
        }
        for (const auto& m : needed(rank, e)) {
          received[{std::get<0>(m), std::get<2>(m) % sizes_.stages}].push_back(m);
        }
      }
    }
    return sent == received;
  }

  // Every rank, again and again, as far as it comes.
  bool runs() const {
    std::set<message> there;
    std::vector<std::size_t> at(table_.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        if (at[rank] == table_.ranks[rank].size()) continue;
        const auto& e = table_.ranks[rank][at[rank]];
        const auto wanted = needed(rank, e);
        if (!wanted.empty() && there.count(wanted[0]) == 0) continue;
        for (const auto& m : made(rank, e)) there.insert(m);
        ++at[rank];
        moved = true;
      }
    }
    return at_the_end(at);
  }

  // The same where sender and receiver must meet: what a rank has posted is struck out when the
  // other side has posted it too, and a rank goes on when all of its own is struck out.
  bool meets() const {
    std::vector<std::size_t> at(table_.ranks.size());
    std::vector<std::set<message>> sends(at.size()), receives(at.size());
    const auto post = [&](std::size_t rank) {
      const auto& entries = table_.ranks[rank];
      if (at[rank] > 0) {
        for (const auto& m : made(rank, entries[at[rank] - 1])) {
          if (is_received(m)) sends[rank].insert(m);
        }
      }
      if (at[rank] < entries.size()) {
        for (const auto& m : needed(rank, entries[at[rank]])) receives[rank].insert(m);
      }
    };
    for (std::size_t rank = 0; rank < at.size(); ++rank) post(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& from : sends) {
        for (auto& to : receives) {
          for (auto m = from.begin(); m != from.end();) {
            if (to.erase(*m) == 0) {
              ++m;
              continue;
            }
            m = from.erase(m);
            moved = true;
          }
        }
      }
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        if (!sends[rank].empty() || !receives[rank].empty()) continue;
        if (at[rank] == table_.ranks[rank].size()) continue;
        ++at[rank];
        post(rank);
        moved = true;
      }
    }
    return at_the_end(at);
  }

  bool at_the_end(const std::vector<std::size_t>& at) const {
    for (std::size_t rank = 0; rank < at.size(); ++rank) {
      if (at[rank] != table_.ranks[rank].size()) return false;
    }
    return true;
  }

  const schedule_table& table_;
  schedule_sizes sizes_;
};

BOOST_AUTO_TEST_CASE(every_larger_schedule_is_as_documented) {
  for (const auto schedule : pipeline_schedules) {
    const std::int64_t most_chunks = schedule == pipeline_schedule::interleaved ? 4 : 1;
    for (std::int64_t stages = 1; stages <= 12; ++stages) {
      for (std::int64_t chunks = 1; chunks <= most_chunks; ++chunks) {
        for (std::int64_t microbatches = 1; microbatches <= 40; ++microbatches) {
          const schedule_sizes sizes{stages, microbatches, chunks};
          BOOST_TEST(schedules::as_documented(schedule, sizes),
                     name_of(schedule) << " " << stages << " " << microbatches << " " << chunks);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_bubble_does_not_depend_on_the_ratio_of_backward_to_forward) {
  for (const schedule_costs costs : {schedule_costs{3, 5, 3, 2}, schedule_costs{5, 3, 2, 1}}) {
    for (const auto schedule : {pipeline_schedule::gpipe, pipeline_schedule::interleaved,
                                pipeline_schedule::one_forward_one_backward}) {
      for (std::int64_t stages = 1; stages <= 6; ++stages) {
        for (std::int64_t microbatches = stages; microbatches <= 14; ++microbatches) {
          const std::int64_t chunks = schedule == pipeline_schedule::interleaved ? 3 : 1;
          const auto times =
              time_schedule(make_schedule(schedule, {stages, microbatches, chunks}), costs);
          const auto unit = costs.forward + costs.backward;
          BOOST_TEST(times.total == (chunks * microbatches + stages - 1) * unit);
          const double share = static_cast<double>(stages - 1) /
                               static_cast<double>(chunks * microbatches + stages - 1);
          BOOST_TEST(std::abs(times.bubble() - share) < 1e-15);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_check_finds_what_a_slow_one_finds) {
  std::mt19937 random(20231);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random() % static_cast<std::uint32_t>(n));
  };
  int sound = 0, blocked = 0, faulty = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    const auto schedule = pipeline_schedules[below(4)];
    const auto chunks = schedule == pipeline_schedule::interleaved ? below(3) + 1 : 1;
    const schedule_sizes sizes{static_cast<std::int64_t>(below(4) + 1),
                               static_cast<std::int64_t>(below(8) + 1),
                               static_cast<std::int64_t>(chunks)};
    schedule_table table = make_schedule(schedule, sizes);
    for (std::size_t changes = below(4); changes > 0; --changes) {
      auto& entries = table.ranks[below(table.ranks.size())];
      const std::size_t i = below(entries.size()), j = below(entries.size());
      switch (below(8)) {
        case 0:
          std::swap(entries[i], entries[j]);
          break;
        case 1:
          entries[i] = entries[j];
          break;
        case 2:
          if (entries.size() > 1) entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        case 3: {  // a whole backward in two, or the other way round, is no fault
          const schedule_entry entry = entries[i];
          if (entry.pass != pass_kind::backward) break;
          entries[i].pass = pass_kind::input_gradient;
          entries.push_back({pass_kind::weight_gradient, entry.microbatch, entry.chunk});
          break;
        }
        default:  // neighbours change places
          if (i + 1 < entries.size()) std::swap(entries[i], entries[i + 1]);
      }
    }
    const slow_check slow(table);
    const bool runs = slow.sound(false), meets = slow.sound(true);
    const schedule_fault any = check_schedule(table), none_open = check_schedule(table, 0);
    BOOST_TEST(any.found() == !runs);
    BOOST_TEST(none_open.found() == !meets);
    if (runs && !meets) {
      BOOST_TEST((none_open.kind == schedule_fault_kind::blocked_send));
    } else {
      BOOST_TEST((none_open == any));
    }
    ++(meets ? sound : runs ? blocked : faulty);
  }
  // All three outcomes were met often enough for the comparison to say something.
  BOOST_TEST(sound > 500);
  BOOST_TEST(blocked > 100);
  BOOST_TEST(faulty > 500);
}

BOOST_AUTO_TEST_CASE(a_large_schedule_takes_well_under_a_second) {
  const std::clock_t begin = std::clock();  // of this process: other load does not count
  const schedule_table table = make_schedule(pipeline_schedule::interleaved, {64, 4096, 4});
  const bool found = check_schedule(table, 1).found();
  const double taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  BOOST_TEST(!found);
  BOOST_TEST(taken < 1);
  BOOST_TEST_MESSAGE("generated and checked in " << taken << " s");
  BOOST_TEST(time_schedule(table).total == 3 * (4 * 4096 + 63));
}

BOOST_AUTO_TEST_CASE(charts_show_the_schedule) {
  const auto chart = [](pipeline_schedule schedule, const schedule_sizes& sizes) {
    const schedule_table table = make_schedule(schedule, sizes);
    return chart_text(table, time_schedule(table));
  };
  BOOST_TEST(chart(pipeline_schedule::gpipe, {2, 2, 1}) ==
             "rank 0 | F0 F1 .  .  .  B0--- B1---\n"
             "rank 1 | .  F0 F1 B0--- B1--- .  .\n");
  BOOST_TEST(chart(pipeline_schedule::zero_bubble, {3, 3, 1}) ==
             "rank 0 | F0 F1 F2 .  .  B0 W0 B1 W1 B2 W2\n"
             "rank 1 | .  F0 F1 .  B0 F2 B1 W0 B2 W1 W2\n"
             "rank 2 | .  .  F0 B0 F1 B1 F2 B2 W0 W1 W2\n");
  BOOST_TEST(chart(pipeline_schedule::interleaved, {2, 2, 2}) ==
             "rank 0 | F0.0 F1.0 F0.1 F1.1 .    .    B0.1----- .    B1.1----- B0.0----- B1.0-----\n"
             "rank 1 | .    F0.0 F1.0 F0.1 B0.1----- F1.1 B1.1----- B0.0----- B1.0----- .    .\n");
}

BOOST_AUTO_TEST_CASE(an_image_has_a_box_for_every_pass) {
  const schedule_table table = make_schedule(pipeline_schedule::interleaved, {2, 5, 2});
  const std::string image = svg_text(table, time_schedule(table), "a < b & c");
  const auto count = [&](const std::string& word) {
    int found = 0;
    for (auto at = image.find(word); at != std::string::npos; at = image.find(word, at + 1)) {
      ++found;
    }
    return found;
  };
  // Passes, two rows, the background; forward, backward, idle and later chunks in the legend.
  BOOST_TEST(count("<rect ") == 2 * 5 * 2 * 2 + 2 + 1 + 4);
  BOOST_TEST(count("<text ") == count("</text>"));
  BOOST_TEST(count("a &lt; b &amp; c") == 1);
  BOOST_TEST(image.starts_with("<svg "));
  BOOST_TEST(image.ends_with("</svg>\n"));
}

}  // namespace
