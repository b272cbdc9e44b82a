// SPDX-License-Identifier: Apache-2.0
//
// The program of the README: mpirun -n 2 build/examples/first_screen
#include <cstdio>
#include "tenon/communicate/program.hpp"
#include "tenon/tensor.hpp"
#include "tenon/tensor/print.hpp"
using namespace tenon;

// Each rank holds a term of a sum; a sum becomes pieces of a dim by one move, forward and backward.
using terms = tensor<fp32, dims<sequence, hidden>, placement<on<axis::tensor, partial>>>;
static_assert(std::same_as<move<axis::tensor, partial, sharded<sequence>>,
                           reduce_scatter<axis::tensor, sequence>>);
static_assert(std::same_as<backward_move<axis::tensor, partial, sharded<sequence>>,
                           all_gather<axis::tensor, sequence>>);

int run(mpi_session& mpi) {
  ranks<mesh<axis::tensor>> all(mpi.world(), mesh<axis::tensor>({2}));
  terms x(all, {3, 2});
  fill(x, all.rank() == 0 ? 1 : 0.5);
  const auto y = redistribute<axis::tensor, sharded<sequence>>(x);  // 3 rows: 2 here, 1 there
  if (all.rank() == 0) std::printf("%s\n%s", described(y).c_str(), values_text(y).c_str());
  return 0;
}

int main(int argc, char** argv) { return run_program(argc, argv, run); }

// Output:
//   fp32 [sequence 3, hidden 2] tensor: sharded<sequence>; here 0..1 x 0..1
//   1.5 1.5
//   1.5 1.5
