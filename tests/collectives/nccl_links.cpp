// SPDX-License-Identifier: Apache-2.0
// A program over NCCL itself, which must compile without nvcc and link. It is not run: that needs a
// GPU a rank.
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/nccl.hpp"
#include "tenon/communicate/program.hpp"

template class tenon::basic_nccl_transport<tenon::nccl_calls>;

int main(int argc, char** argv) {
  return tenon::run_program(argc, argv, [](tenon::mpi_session& mpi) {
    auto host = mpi.world();
    tenon::cuda_device gpu(host->rank());
    const tenon::computes_on here(&gpu);
    tenon::nccl_transport world(std::move(host), gpu);
    world.synchronize(0);
    return 0;
  });
}
