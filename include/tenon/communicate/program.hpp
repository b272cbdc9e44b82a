// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tenon/base/text.hpp"
#include "tenon/communicate/mpi/session.hpp"
#include "tenon/communicate/watchdog.hpp"

namespace tenon::inline v0 {

namespace detail {

/// How the ranks of a program end together: each tells the others how it ended. A rank that failed
/// waits a short while for the others to end likewise, and stops the run when they do not.
class program_end {
 public:
  struct outcome {
    std::int64_t status = 0;
    std::string sentence;
  };

  program_end() {
    MPI_Comm_dup(MPI_COMM_WORLD, &everyone_);
    MPI_Comm_set_errhandler(everyone_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(everyone_, &rank_);
    MPI_Comm_size(everyone_, &size_);
  }
  program_end(const program_end&) = delete;
  program_end& operator=(const program_end&) = delete;

  /// Returns the largest status of all ranks, after what went wrong was printed: once, when it is
  /// the same on all. Ends the process, and with it the run, when this rank failed alone.
  int together(const outcome& mine) {
    const std::array<std::int64_t, 2> told{mine.status,
                                           static_cast<std::int64_t>(hash_of(mine.sentence))};
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size_));
    MPI_Request exchange = MPI_REQUEST_NULL;
    MPI_Iallgather(told.data(), 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, everyone_, &exchange);
    const auto begin = std::chrono::steady_clock::now();
    int arrived = 0;
    while (arrived == 0) {
      if (MPI_Test(&exchange, &arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
      if (arrived != 0) break;
      if (mine.status != 0 && std::chrono::steady_clock::now() - begin > patience) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (arrived == 0) {
      say(mine.sentence.empty()
              ? joined("it ended with status ", mine.status, " while other ranks went on")
              : mine.sentence,
          size_ > 1);
      MPI_Abort(MPI_COMM_WORLD, static_cast<int>(mine.status == 0 ? 1 : mine.status));
    }
    std::int64_t worst = 0;
    bool same = true;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      worst = std::max(worst, all[i]);
      same = same && all[i] == all[0] && all[i + 1] == all[1];
    }
    if (!mine.sentence.empty() && (rank_ == 0 || !same)) say(mine.sentence, !same);
    MPI_Comm_free(&everyone_);
    return static_cast<int>(worst);
  }

 private:
  static constexpr std::chrono::seconds patience{2};

  void say(const std::string& sentence, bool name_rank) const {
    std::fflush(stdout);
    const std::string line =
        joined("tenon: error: ", name_rank ? joined("rank ", rank_, ": ") : "", sentence, "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
  }

  MPI_Comm everyone_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace detail

/// The main function of a program over MPI ranks: starts MPI, runs `body(mpi_session&)`, which
/// returns the exit status, and ends all ranks alike. Errors become one line on stderr, "tenon:
/// error: sentence", and the exit status of their kind on every rank: 1 the run failed, 2 a bad
/// request, 3 a lost rank, 4 stopped by the watchdog. A rank that fails alone stops all others
/// within seconds. This is for programs: the library itself never ends a process.
template <class Body>
int run_program(int argc, char** argv, Body&& body) {
  static_assert(std::is_invocable_r_v<int, Body&, mpi_session&>,
                "run_program: the body cannot be called; give it one parameter, mpi_session&, and "
                "let it return the exit status");
  std::optional<mpi_session> mpi;
  try {
    mpi.emplace(argc, argv);
  } catch (const error& e) {
    std::fprintf(stderr, "tenon: error: %s\n", e.what());
    return e.exit_status();
  }
  watchdog::of_this_process().set_handler([](const std::string& sentence) {
    const std::string line = joined("tenon: error: ", sentence, "\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(nullptr);
    std::_Exit(4);
  });
  detail::program_end end;
  detail::program_end::outcome outcome;
  try {
    outcome.status = body(*mpi);
  } catch (const error& e) {
    outcome = {e.exit_status(), e.what()};
  } catch (const std::bad_alloc&) {
    outcome = {1, "no memory is left; use smaller sizes or more ranks"};
  } catch (const std::exception& e) {
    outcome = {1, e.what()};
  } catch (...) {
    outcome = {1, "an exception of an unknown kind"};
  }
  const int status = end.together(outcome);
  // After an error messages may be under way that nobody will receive: MPI must not wait for them
  // for ever.
  request leaving;
  watchdog::of_this_process().set_handler([status](const std::string&) { std::_Exit(status); });
  const watchdog::watch watched(leaving, 0, 1, status == 0 ? 0 : 2);
  mpi.reset();
  return status;
}

}  // namespace tenon::inline v0
