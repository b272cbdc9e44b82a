// SPDX-License-Identifier: Apache-2.0
//
// Trains small models in every layout of a number of ranks and compares each with one rank:
//   mpirun -n 8 build/examples/check_layouts            8 ranks, processes
//   build/examples/check_layouts --ranks 8              8 ranks, threads of this process
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layouts.hpp"
#include "runs/record.hpp"
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/train/table.hpp"

namespace check_layouts {
namespace {

using namespace tenon;
using namespace tenon_test;

struct settings {
  int ranks = 0;  ///< simulated; 0: those that mpirun started
  bool few = false;
  bool sabotage = false;
};

// All ranks' records of a run over processes, on rank 0.
std::optional<training_outcome> run_over(transport& world, const training_request& request) {
  rank_record mine = record_of_rank(world.split(0, world.rank()), request);
  std::vector<rank_record> all;
  if (world.rank() == 0) all.push_back(std::move(mine));
  const auto message = [&](collective call, void* data, std::int64_t count, int peer) {
    world.run({.call = call,
               .from = data,
               .to = data,
               .count = count,
               .peer = peer,
               .bookkeeping = true,
               .axis = "all",
               .tensor = "record"});
  };
  for (int rank = 1; rank < world.size(); ++rank) {
    if (world.rank() != rank && world.rank() != 0) continue;
    std::vector<std::byte> bytes;
    if (world.rank() == rank) bytes = bytes_of_record(mine);
    auto size = static_cast<std::int64_t>(bytes.size());
    const bool sends = world.rank() == rank;
    const collective call = sends ? collective::send : collective::receive;
    message(call, &size, sizeof size, sends ? 0 : rank);
    bytes.resize(static_cast<std::size_t>(size));
    message(call, bytes.data(), size, sends ? 0 : rank);
    if (!sends) all.push_back(record_of_bytes(bytes));
  }
  if (world.rank() != 0) return std::nullopt;
  return outcome_of(std::move(all));
}

// The same model on one rank, made once for each model.
const training_outcome& serial_of(const training_request& request) {
  static std::map<std::string, training_outcome> known;
  training_request alone = request;
  alone.data = alone.pipeline = alone.context = alone.expert = alone.tensor = 1;
  alone.chunks = 1;
  alone.microbatch = alone.batch;
  alone.split_sequence = false;
  alone.tensor_grid = 0;
  alone.shards = {};
  alone.schedule = pipeline_schedule::one_forward_one_backward;
  alone.attention = {};
  alone.recompute = recompute::none;
  alone.broken = tenon_test::sabotage::none;
  const std::string name = text_of(alone);
  const auto found = known.find(name);
  return found != known.end() ? found->second
                              : known.emplace(name, run_training(alone)).first->second;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}
std::string both(std::int64_t predicted, std::int64_t counted) {
  return joined(grouped(predicted), " / ", grouped(counted));
}

class result_table {
 public:
  int passed = 0;
  int failed = 0;

  void add(const layout_request& layout, const training_outcome& outcome) {
    const differences d = compare(serial_of(layout.request), outcome);
    std::string missed = missed_bars(d, layout.bar);
    constexpr std::size_t shown = 3;  // of what may be hundreds
    for (std::size_t i = 0; i < std::min(shown, outcome.faults.size()); ++i) {
      missed += outcome.faults[i] + "; ";
    }
    if (outcome.faults.size() > shown) {
      missed += joined("and ", outcome.faults.size() - shown, " faults more");
    }
    (missed.empty() ? passed : failed) += 1;
    if (passed + failed == 1) {
      std::printf("%-8s %-8s %-8s %-25s %-25s %-6s %s\n", "loss", "gradient", "weights",
                  "bytes predicted/counted", "memory predicted/counted", "", "layout");
    }
    std::printf("%-8s %-8s %-8s %-25s %-25s %-6s %s\n", number(d.loss).c_str(),
                number(d.gradients).c_str(), number(d.weights).c_str(),
                both(outcome.costs.predicted_bytes, outcome.costs.counted_bytes).c_str(),
                both(outcome.costs.predicted_memory, outcome.costs.counted_memory).c_str(),
                missed.empty() ? "pass" : "FAIL", layout.name.c_str());
    if (!missed.empty()) std::printf("         %s\n", missed.c_str());
    std::fflush(stdout);
  }
};

int check(transport* world, const settings& how, int ranks) {
  auto layouts = all_layouts(ranks, how.few);
  if (how.sabotage) {
    // One layout, in which the data ranks' gradients are not summed.
    layout_request broken{model_of(block_form::llama), "", 1e-10};
    broken.request.data = ranks;
    broken.request.microbatch = 1;
    broken.request.broken = tenon_test::sabotage::lost_data_reduction;
    broken.name = joined(text_of(broken.request), ", without the sum of gradients over data");
    layouts = {broken};
    if (world == nullptr || world->rank() == 0) {
      std::printf("sabotage: the sum of the gradients over the data axis is left out\n");
    }
  }
  result_table results;
  for (const layout_request& layout : layouts) {
    if (world == nullptr) {
      results.add(layout, run_training(layout.request));
    } else if (const auto outcome = run_over(*world, layout.request)) {
      results.add(layout, *outcome);
    }
  }
  if (world != nullptr) {
    std::int64_t failed = results.failed;
    world->run({.call = collective::broadcast,
                .element = element_kind::int64,
                .to = &failed,
                .count = 1,
                .bookkeeping = true,
                .axis = "all",
                .tensor = "result"});
    results.failed = static_cast<int>(failed);
  }
  if (world == nullptr || world->rank() == 0) {
    std::printf("%d passed, %d failed\n", results.passed, results.failed);
  }
  return results.failed == 0 ? 0 : 1;
}

std::string read_flags(int count, const char* const* arguments, settings& how) {
  CLI::App parser(
      "Trains small decoders in every layout of 8 ranks and compares each with one rank.",
      "mpirun -n 8 check_layouts");
  parser.set_help_flag("-h,--help", "print this and end");
  parser
      .add_option("--ranks", how.ranks,
                  "simulate so many ranks in this process, instead of those of mpirun")
      ->type_name("N");
  parser.add_flag("--few", how.few, "a third of the layouts, without every pair of options");
  parser.add_flag("--sabotage", how.sabotage,
                  "leave one sum out, to see that the comparison finds it");
  try {
    parser.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return parser.help();
  } catch (const CLI::ParseError& complaint) {
    require(false, "the flags cannot be read (", complaint.what(), "); type --help to see them");
  }
  return "";
}

}  // namespace
}  // namespace check_layouts

int main(int argc, char** argv) {
  return tenon::run_program(argc, argv, [&](tenon::mpi_session& mpi) {
    check_layouts::settings how;
    const auto world = mpi.world();
    const std::string answer = check_layouts::read_flags(argc, argv, how);
    if (!answer.empty()) {
      if (world->rank() == 0) std::fputs(answer.c_str(), stdout);
      return 0;
    }
    tenon::require(how.ranks >= 0 && how.ranks <= 64, "--ranks ", how.ranks,
                   " is out of range; it is between 1 and 64; type --ranks 8");
    tenon::require(how.ranks == 0 || world->size() == 1,
                   "--ranks simulates ranks in one process, and mpirun started ", world->size(),
                   "; leave out one of the two");
    tenon::kernel::set_threads(1);
    if (how.ranks > 0) return check_layouts::check(nullptr, how, how.ranks);
    if (world->size() == 1) return check_layouts::check(nullptr, how, 8);
    return check_layouts::check(world.get(), how, world->size());
  });
}
