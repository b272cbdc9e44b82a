// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

#include "tenon/communicate/call.hpp"

namespace tenon::inline v0::detail {

/// bf16 has no type in MPI: it travels as 16 bits and is never reduced there.
inline MPI_Datatype mpi_type(element_kind kind) {
  switch (kind) {
    case element_kind::bf16:
      return MPI_UINT16_T;
    case element_kind::int32:
      return MPI_INT32_T;
    case element_kind::int64:
      return MPI_INT64_T;
    case element_kind::fp32:
      return MPI_FLOAT;
    case element_kind::fp64:
      return MPI_DOUBLE;
    case element_kind::byte:
      break;
  }
  return MPI_BYTE;
}

inline MPI_Op mpi_operation(const request& r) {
  require_mergeable(r.element, r.reduction);
  require(r.element != element_kind::bf16 && r.reduction != reduction_kind::log_sum_exp,
          "mpi: a reduction of ", name_of(r.element), " by ", name_of(r.reduction),
          " was given to the transport; call it through a communicator, which merges it itself");
  switch (r.reduction) {
    case reduction_kind::maximum:
      return MPI_MAX;
    case reduction_kind::minimum:
      return MPI_MIN;
    case reduction_kind::sum:
    case reduction_kind::log_sum_exp:
      break;
  }
  return MPI_SUM;
}

/// Throws the error of a failed MPI call as one sentence.
inline void check_mpi(int code, const request& r, int rank, int size) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  int kind = MPI_ERR_OTHER;
  MPI_Error_class(code, &kind);
  const std::string where =
      joined("rank ", rank, " of ", described_group(r.axis, size), " at step ", r.step, ": ");
  if (kind == MPI_ERR_TRUNCATE) {
    throw error(error_kind::disagreement,
                joined(where, described(r), " got more than it expects (", text,
                       "); give the same counts on all ranks, TENON_CHECK=calls finds the call"));
  }
  throw error(error_kind::failed, joined(where, described(r), " failed in MPI: ", text,
                                         "; look at what the other ranks print"));
}

/// Throws when a message is not as long as its receive says.
inline void check_received(const MPI_Status& status, int expected, const request& r, int rank,
                           int size) {
  int got = 0;
  check_mpi(MPI_Get_count(&status, mpi_type(r.element), &got), r, rank, size);
  if (got == expected) return;
  throw error(error_kind::disagreement,
              joined("rank ", rank, " of ", described_group(r.axis, size), " at step ", r.step,
                     ": ", described(r), " got ", got, " elements where it expects ", expected,
                     "; send and receive the same count"));
}

}  // namespace tenon::inline v0::detail
