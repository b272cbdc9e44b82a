// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tenon/communicate/mpi/transport.hpp"

namespace tenon::inline v0 {

/// MPI for as long as it lives: started here unless it runs already, and ended only when it was
/// started here. Make it first in main, so that every transport ends before it.
///
///   int main(int argc, char** argv) {
///     mpi_session mpi(argc, argv);
///     auto world = mpi.world();
///   }
/// Thread-safety: none; it belongs to the main thread.
class mpi_session {
 public:
  mpi_session(int& argc, char**& argv) {
    int running = 0;
    MPI_Initialized(&running);
    started_here_ = running == 0;
    if (!started_here_) return;
    wait_politely();
    int provided = 0;
    const int code = MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
      throw error(error_kind::failed,
                  "mpi: MPI could not be started for a program with threads; start the program "
                  "with mpirun of the MPI it was built with");
    }
    // MPICH reports the errors of started calls to these and not to the communicator of the call.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  ~mpi_session() {
    int over = 0;
    MPI_Finalized(&over);
    if (started_here_ && over == 0) MPI_Finalize();
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

  bool started_here() const noexcept { return started_here_; }

  /// Collective: the transport of all ranks.
  std::unique_ptr<transport> world(mpi_options options = {}) const {
    return mpi_transport::duplicate_of(MPI_COMM_WORLD, options);
  }

 private:
  /// Ranks that share cores must give the core away while they wait. Open MPI does so only when its
  /// launcher counted the cores as too few.
  static void wait_politely() {
    const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (local != nullptr && std::atol(local) > sysconf(_SC_NPROCESSORS_ONLN)) {
      setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    }
  }

  bool started_here_ = false;
};

}  // namespace tenon::inline v0
