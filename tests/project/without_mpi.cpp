// SPDX-License-Identifier: Apache-2.0
#include "tenon/communicate.hpp"

#ifdef MPI_VERSION
#error "tenon/communicate.hpp includes MPI; only tenon/communicate/mpi.hpp may"
#endif
