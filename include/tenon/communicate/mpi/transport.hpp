// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>

#include "tenon/communicate/mpi/pieces.hpp"

namespace tenon::inline v0 {

/// How an MPI transport is set.
struct mpi_options {
  std::int64_t count_limit = INT32_MAX;  ///< elements that one MPI call may count
};

/// Ranks that are processes under MPI, with tensors in host memory. It owns a duplicate of the
/// communicator it was given, so nothing of the user's can meet its messages. A blocking call is
/// the plain MPI call when MPI's int can count it, pieces otherwise.
/// Thread-safety: none; used by the thread that may call MPI.
class mpi_transport final : public transport {
 public:
  /// Collective: a transport over all ranks of `users`.
  static std::unique_ptr<mpi_transport> duplicate_of(MPI_Comm users, mpi_options options = {}) {
    require(options.count_limit >= 1 && options.count_limit <= INT32_MAX, "mpi: a count limit of ",
            options.count_limit, " was asked for; MPI counts from 1 to ", INT32_MAX);
    MPI_Comm own = MPI_COMM_NULL;
    const int code = MPI_Comm_dup(users, &own);
    request r;
    r.call = collective::split;
    r.axis = "all";
    detail::check_mpi(code, r, 0, 1);
    return std::unique_ptr<mpi_transport>(new mpi_transport(own, options, must_be_polite(own)));
  }
  ~mpi_transport() override {
    int over = 0;
    MPI_Finalized(&over);
    if (over == 0 && group_.handle != MPI_COMM_NULL) MPI_Comm_free(&group_.handle);
  }

  MPI_Comm handle() const noexcept { return group_.handle; }

  std::unique_ptr<transport> split(int color, int key) override {
    request r;
    r.call = collective::split;
    r.axis = "of a split";
    const watchdog::watch watched(r, rank(), size(), group_.timeout);
    MPI_Comm part = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_split(group_.handle, color, key, &part), r, rank(), size());
    mpi_options options;
    options.count_limit = group_.limit;
    std::unique_ptr<mpi_transport> made(new mpi_transport(part, options, group_.polite));
    made->set_timeout(group_.timeout);
    return made;
  }

  pending start(const request& call) override {
    return pending(std::make_unique<detail::mpi_pieces>(group_, call));
  }

  void run(const request& r) override {
    const bool receives = r.call == collective::receive;
    if (!plain(r) || (group_.polite && !receives)) return start(r).wait();
    const watchdog::watch watched(r, rank(), size(), group_.timeout);
    detail::check_mpi(run_plain(r), r, rank(), size());
  }

  void set_timeout(double seconds) override { group_.timeout = std::max(seconds, 0.0); }

 private:
  mpi_transport(MPI_Comm own, mpi_options options, bool polite)
      : transport(rank_in(own), size_of(own)), group_{own, rank(), size(), options.count_limit,
                                                      0,   polite} {
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  }

  /// Open MPI gives its core away when there are more ranks than cores; MPICH spins, and a small
  /// call then takes as long as a turn of the scheduler.
  static bool must_be_polite(MPI_Comm group) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(library, &length);
    if (std::string_view(library).find("Open MPI") != std::string_view::npos) return false;
    MPI_Comm here = MPI_COMM_NULL;
    if (MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) != MPI_SUCCESS) {
      return false;
    }
    const int ranks_here = size_of(here);
    MPI_Comm_free(&here);
    return ranks_here > static_cast<int>(std::thread::hardware_concurrency());
  }

  static int rank_in(MPI_Comm group) {
    int rank = 0;
    MPI_Comm_rank(group, &rank);
    return rank;
  }
  static int size_of(MPI_Comm group) {
    int size = 1;
    MPI_Comm_size(group, &size);
    return size;
  }

  /// True when one blocking MPI call does it. Every rank must come to the same answer.
  bool plain(const request& r) const {
    switch (r.call) {
      case collective::barrier:
        return true;
      case collective::all_to_all:
        return r.global_count != varies && r.global_count <= group_.limit && r.from != r.to;
      case collective::reduce_scatter:
      case collective::all_gather:
      case collective::broadcast:
      case collective::all_reduce:
        return global_count_of(r) > 0 && global_count_of(r) <= group_.limit;
      case collective::send:
      case collective::receive:
        return r.count <= group_.limit;
      case collective::split:
        return false;
    }
    return false;
  }

  int run_plain(const request& r) {
    using namespace detail;
    const MPI_Datatype type = mpi_type(r.element);
    const int count = static_cast<int>(r.count);
    const MPI_Comm group = group_.handle;
    switch (r.call) {
      case collective::barrier:
        return MPI_Barrier(group);
      case collective::broadcast:
        return MPI_Bcast(r.to, count, type, r.peer, group);
      case collective::all_reduce:
        return MPI_Allreduce(r.from == r.to ? MPI_IN_PLACE : r.from, r.to, count, type,
                             mpi_operation(r), group);
      case collective::all_gather:
        return all_gather(r, type);
      case collective::reduce_scatter:
        return reduce_scatter(r, type);
      case collective::all_to_all: {
        from_.set(r.from_counts);
        to_.set(r.to_counts);
        if (r.own_in_place) {
          const auto me = static_cast<std::size_t>(rank());
          from_.counts[me] = to_.counts[me] = 0;
        }
        return MPI_Alltoallv(r.from, from_.counts.data(), from_.displacements.data(), type, r.to,
                             to_.counts.data(), to_.displacements.data(), type, group);
      }
      case collective::send:
        return MPI_Send(r.from, count, type, r.peer, r.tag, group);
      case collective::receive: {
        if (group_.polite) await_message(r);
        MPI_Status status;
        const int code = MPI_Recv(r.to, count, type, r.peer, r.tag, group, &status);
        if (code == MPI_SUCCESS) check_received(status, count, r, rank(), size());
        return code;
      }
      case collective::split:
        break;
    }
    return MPI_SUCCESS;
  }

  void await_message(const request& r) {
    detail::wait_politely([&] {
      int here = 0;
      detail::check_mpi(MPI_Iprobe(r.peer, r.tag, group_.handle, &here, MPI_STATUS_IGNORE), r,
                        rank(), size());
      return here != 0;
    });
  }

  int all_gather(const request& r, MPI_Datatype type) {
    using namespace detail;
    const auto me = static_cast<std::size_t>(rank());
    const void* own = at(r.to, sum_of(r.to_counts.first(me)), r.element);
    const void* from = r.from == own ? MPI_IN_PLACE : r.from;
    const int count = static_cast<int>(r.to_counts[me]);
    if (std::ranges::adjacent_find(r.to_counts, std::ranges::not_equal_to{}) == r.to_counts.end()) {
      return MPI_Allgather(from, count, type, r.to, count, type, group_.handle);
    }
    to_.set(r.to_counts);
    return MPI_Allgatherv(from, count, type, r.to, to_.counts.data(), to_.displacements.data(),
                          type, group_.handle);
  }

  int reduce_scatter(const request& r, MPI_Datatype type) {
    using namespace detail;
    const auto me = static_cast<std::size_t>(rank());
    const std::int64_t before = sum_of(r.from_counts.first(me));
    const bool in_place = r.to == at(r.from, before, r.element);
    // In place, MPI puts the result at the beginning of the input.
    void* const to = in_place ? at(r.to, -before, r.element) : static_cast<std::byte*>(r.to);
    from_.set(r.from_counts);
    const int code = MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : r.from, to, from_.counts.data(),
                                        type, mpi_operation(r), group_.handle);
    if (code == MPI_SUCCESS && in_place) copy_elements(r.to, to, r.from_counts[me], r.element);
    return code;
  }

  detail::mpi_group group_;
  detail::mpi_counts from_, to_;  // of the blocking call; kept, so that a call allocates nothing
};

}  // namespace tenon::inline v0
