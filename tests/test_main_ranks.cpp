// SPDX-License-Identifier: Apache-2.0
// The main of tests that mpirun starts. A failure on one rank ends all of them: the others may wait
// for it in a collective.
#include <mpi.h>

#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include <boost/test/unit_test.hpp>

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int status = boost::unit_test::unit_test_main([] { return true; }, argc, argv);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
