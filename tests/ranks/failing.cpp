// SPDX-License-Identifier: Apache-2.0
// T-35: a program that fails in the way its first argument says: failing.bash looks at how it ends.
#include <cstdio>
#include <string>
#include <vector>

#include "tenon/communicate/collectives.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/communicate/ranks.hpp"

using namespace tenon;

namespace {

int fail(const std::string& way, mpi_session& mpi) {
  using grid = mesh<axis::data>;
  auto world = mpi.world();
  const int size = world->size();
  ranks<grid> all(std::move(world), grid({way == "extents" ? size + 1 : size}),
                  {.timeout = way == "away" ? 0.5 : 600});
  communicator& group = all.on<axis::data>();
  all.set_step(2);
  const int last = group.size() - 1;
  std::vector<float> values(20), more(21);
  communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.tensor = "first"});

  if (way == "nothing") return 0;
  if (way == "throws" && group.rank() == last) throw error(error_kind::failed, "no more paper");
  if (way == "foreign" && group.rank() == last) throw std::runtime_error("not one of ours");
  if (way == "away" && group.rank() == last) {
    // It stays away for good: the others' watchdog must end it.
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (way == "returns" && group.rank() == last) return 1;
  if (way == "swapped" && group.rank() == last) {
    communicate::broadcast(group, std::span(values), 0, {.tensor = "gain"});
  }
  if (way == "sizes" && group.rank() == last) {
    communicate::all_reduce(group, std::span(more), reduction_kind::sum, {.tensor = "weight"});
  }
  communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.tensor = "weight"});
  if (way == "compared") {
    const char* name = group.rank() == last ? "bias" : "weight";
    communicate::all_reduce(group, std::span(values), reduction_kind::sum, {.tensor = name});
    all.compare_plans();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "nothing";
  return run_program(argc, argv, [&](mpi_session& mpi) { return fail(way, mpi); });
}
