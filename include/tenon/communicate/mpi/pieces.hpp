// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/communicate/mpi/types.hpp"
#include "tenon/communicate/transport.hpp"
#include "tenon/communicate/watchdog.hpp"

namespace tenon::inline v0::detail {

/// A group as MPI knows it, and how the transport was set.
struct mpi_group {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::int64_t limit = INT32_MAX;  ///< elements that one MPI call may count
  double timeout = 0;
  bool polite = false;  ///< ranks share cores, and this MPI would not give them away while it waits
};

/// Looks again and again, and leaves the core to others in between.
template <class Done>
void wait_politely(Done done) {
  for (int looks = 0; !done(); ++looks) {
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

/// Counts and displacements of a call with a count for each rank, as MPI's ints.
struct mpi_counts {
  mpi_counts() = default;
  explicit mpi_counts(std::span<const std::int64_t> given) { set(given); }

  void set(std::span<const std::int64_t> given) {
    counts.resize(given.size());
    displacements.resize(given.size());
    std::int64_t before = 0;
    for (std::size_t rank = 0; rank < given.size(); ++rank) {
      counts[rank] = static_cast<int>(given[rank]);
      displacements[rank] = static_cast<int>(before);
      before += given[rank];
    }
  }
  std::vector<int> counts;
  std::vector<int> displacements;
};

/// An MPI call on its way: one or many requests, in pieces when MPI's int cannot count it.
class mpi_pieces final : public in_flight {
 public:
  mpi_pieces(const mpi_group& group, const request& r)
      : group_(group), call_(r), axis_(r.axis), tensor_(r.tensor) {
    call_.axis = axis_;
    call_.tensor = tensor_;
    start(r);
    call_.from_counts = {};  // the caller's
    call_.to_counts = {};
    call_.inside_count = r.inside ? r.inside_count : global_count_of(r);
    call_.inside = r.inside.value_or(r.call);
  }

  ~mpi_pieces() override {
    // An error unwinds while MPI still reads these: they are left to it.
    for (const MPI_Request& r : requests_) {
      if (r == MPI_REQUEST_NULL) continue;
      static_cast<void>(from_.release());
      static_cast<void>(to_.release());
      static_cast<void>(aside_.release());
      return;
    }
  }

  void wait() override {
    const watchdog::watch watched(call_, group_.rank, group_.size, group_.timeout);
    if (group_.polite) return wait_politely([this] { return done(); });
    for (; finished_ < requests_.size(); ++finished_) {
      MPI_Status status;
      check(MPI_Wait(&requests_[finished_], &status));
      check_size(status);
    }
    finish();
  }
  bool done() override {
    for (; finished_ < requests_.size(); ++finished_) {
      MPI_Status status;
      int flag = 0;
      check(MPI_Test(&requests_[finished_], &flag, &status));
      if (flag == 0) return false;
      check_size(status);
    }
    finish();
    return true;
  }

 private:
  // Messages of the pieces of one call; users' tags are smaller, MPI promises 32767.
  static constexpr int own_tag = 32767;

  void check(int code) { check_mpi(code, call_, group_.rank, group_.size); }
  void check_size(const MPI_Status& status) {
    if (call_.call != collective::receive) return;
    check_received(status, expected_[finished_], call_, group_.rank, group_.size);
  }
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  /// f(begin, size) for each piece of at most the limit.
  template <class F>
  void in_pieces(std::int64_t count, F f) {
    for (std::int64_t begin = 0; begin < count; begin += group_.limit) {
      f(begin, static_cast<int>(std::min(group_.limit, count - begin)));
    }
  }

  void send(const void* from, std::int64_t count, int peer, int tag) {
    in_pieces(count, [&](std::int64_t begin, int size) {
      check(MPI_Isend(at(from, begin, call_.element), size, mpi_type(call_.element), peer, tag,
                      group_.handle, next()));
    });
    if (count == 0 && tag != own_tag) {
      check(MPI_Isend(nullptr, 0, mpi_type(call_.element), peer, tag, group_.handle, next()));
    }
  }
  void receive(void* to, std::int64_t count, int peer, int tag) {
    in_pieces(count, [&](std::int64_t begin, int size) {
      check(MPI_Irecv(at(to, begin, call_.element), size, mpi_type(call_.element), peer, tag,
                      group_.handle, next()));
      expected_.push_back(size);
    });
    if (count == 0 && tag != own_tag) {
      check(MPI_Irecv(nullptr, 0, mpi_type(call_.element), peer, tag, group_.handle, next()));
      expected_.push_back(0);
    }
  }

  void start(const request& r) {
    switch (r.call) {
      case collective::barrier:
        return check(MPI_Ibarrier(group_.handle, next()));
      case collective::broadcast:
        return in_pieces(r.count, [&](std::int64_t begin, int size) {
          check(MPI_Ibcast(at(r.to, begin, r.element), size, mpi_type(r.element), r.peer,
                           group_.handle, next()));
        });
      case collective::all_reduce:
        return in_pieces(r.count, [&](std::int64_t begin, int size) {
          check(MPI_Iallreduce(r.from == r.to ? MPI_IN_PLACE : at(r.from, begin, r.element),
                               at(r.to, begin, r.element), size, mpi_type(r.element),
                               mpi_operation(r), group_.handle, next()));
        });
      case collective::all_gather:
        return start_all_gather(r);
      case collective::reduce_scatter:
        return start_reduce_scatter(r);
      case collective::all_to_all:
        return start_all_to_all(r);
      case collective::send:
        return send(r.from, r.count, r.peer, r.tag);
      case collective::receive:
        return receive(r.to, r.count, r.peer, r.tag);
      case collective::split:
        return;
    }
  }

  void start_all_gather(const request& r) {
    std::int64_t before = 0, mine = 0;
    for (int rank = 0; rank < group_.size; ++rank) {
      const std::int64_t count = r.to_counts[static_cast<std::size_t>(rank)];
      if (rank == group_.rank) mine = before;
      before += count;
    }
    const std::int64_t own = r.to_counts[static_cast<std::size_t>(group_.rank)];
    if (before == 0) return;
    if (before <= group_.limit) {
      to_ = std::make_unique<mpi_counts>(r.to_counts);
      const bool in_place = r.from == at(r.to, mine, r.element);
      return check(MPI_Iallgatherv(in_place ? MPI_IN_PLACE : r.from, static_cast<int>(own),
                                   mpi_type(r.element), r.to, to_->counts.data(),
                                   to_->displacements.data(), mpi_type(r.element), group_.handle,
                                   next()));
    }
    before = 0;
    for (int rank = 0; rank < group_.size; ++rank) {
      const std::int64_t count = r.to_counts[static_cast<std::size_t>(rank)];
      if (rank != group_.rank) receive(at(r.to, before, r.element), count, rank, own_tag);
      before += count;
    }
    for (int rank = 0; rank < group_.size; ++rank) {
      if (rank != group_.rank) send(r.from, own, rank, own_tag);
    }
    copy_elements(at(r.to, mine, r.element), r.from, own, r.element);
  }

  void start_reduce_scatter(const request& r) {
    const std::int64_t all = sum_of(r.from_counts);
    if (all == 0) return;
    const auto me = static_cast<std::size_t>(group_.rank);
    const std::int64_t mine = sum_of(r.from_counts.first(me));
    const bool in_place = r.to == at(r.from, mine, r.element);
    if (all <= group_.limit) {
      from_ = std::make_unique<mpi_counts>(r.from_counts);
      // In place, MPI puts the result at the beginning of the input: it is moved in finish().
      void* const to = in_place ? at(r.to, -mine, r.element) : static_cast<std::byte*>(r.to);
      if (in_place) moved_ = {r.to, to, r.from_counts[me]};
      return check(MPI_Ireduce_scatter(in_place ? MPI_IN_PLACE : r.from, to, from_->counts.data(),
                                       mpi_type(r.element), mpi_operation(r), group_.handle,
                                       next()));
    }
    std::int64_t before = 0;
    for (int root = 0; root < group_.size; ++root) {
      const std::int64_t count = r.from_counts[static_cast<std::size_t>(root)];
      const bool own = root == group_.rank;
      in_pieces(count, [&](std::int64_t begin, int size) {
        check(MPI_Ireduce(own && in_place ? MPI_IN_PLACE : at(r.from, before + begin, r.element),
                          own ? at(r.to, begin, r.element) : nullptr, size, mpi_type(r.element),
                          mpi_operation(r), root, group_.handle, next()));
      });
      before += count;
    }
  }

  void start_all_to_all(const request& r) {
    const void* source = r.from;
    if (r.from == r.to && r.from != nullptr) {
      const auto* bytes = static_cast<const std::byte*>(r.from);
      aside_ = std::make_unique<std::vector<std::byte>>(
          bytes, bytes + sum_of(r.from_counts) * bytes_of(r.element));
      source = aside_->data();
    }
    // All ranks must choose alike: only a count that all know may decide.
    if (r.global_count != varies && r.global_count <= group_.limit) {
      from_ = std::make_unique<mpi_counts>(r.from_counts);
      to_ = std::make_unique<mpi_counts>(r.to_counts);
      if (r.own_in_place) {
        const auto me = static_cast<std::size_t>(group_.rank);
        from_->counts[me] = to_->counts[me] = 0;
      }
      return check(MPI_Ialltoallv(source, from_->counts.data(), from_->displacements.data(),
                                  mpi_type(r.element), r.to, to_->counts.data(),
                                  to_->displacements.data(), mpi_type(r.element), group_.handle,
                                  next()));
    }
    std::int64_t before = 0;
    std::byte* own_place = nullptr;
    for (int rank = 0; rank < group_.size; ++rank) {
      const std::int64_t count = r.to_counts[static_cast<std::size_t>(rank)];
      std::byte* const to = at(r.to, before, r.element);
      if (rank != group_.rank) receive(to, count, rank, own_tag);
      if (rank == group_.rank) own_place = to;
      before += count;
    }
    before = 0;
    for (int rank = 0; rank < group_.size; ++rank) {
      const std::int64_t count = r.from_counts[static_cast<std::size_t>(rank)];
      const std::byte* const from = at(source, before, r.element);
      if (rank != group_.rank) send(from, count, rank, own_tag);
      if (rank == group_.rank && !r.own_in_place) {
        copy_elements(own_place, from, count, r.element);
      }
      before += count;
    }
  }

  void finish() {
    if (moved_.to != nullptr) copy_elements(moved_.to, moved_.from, moved_.count, call_.element);
    moved_ = {};
  }

  struct copy_at_the_end {
    void* to = nullptr;
    const void* from = nullptr;
    std::int64_t count = 0;
  };

  mpi_group group_;
  request call_;
  std::string axis_;
  std::string tensor_;
  std::vector<MPI_Request> requests_;
  std::size_t finished_ = 0;   // so many of them
  std::vector<int> expected_;  // elements in each message of a receive
  std::unique_ptr<mpi_counts> from_;
  std::unique_ptr<mpi_counts> to_;
  std::unique_ptr<std::vector<std::byte>> aside_;
  copy_at_the_end moved_;
};

}  // namespace tenon::inline v0::detail
