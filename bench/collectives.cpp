// SPDX-License-Identifier: Apache-2.0
// Every collective of a communicator, and every move of `redistribute` that sends, beside the same
// MPI call written by hand, in pairs: medians of interleaved calls on rank 0, their ratio, and the
// quartiles of the ratio of a pair. The ratio is what counting, checking, making the result and
// packing cost; the calls by hand write into memory that is there.
//
//   mpirun -n 2 build/bench/collectives [--json FILE]
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tenon/communicate/collectives.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/memory/keep_pages.hpp"
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;

namespace {

struct pair_of_calls {
  const char* name;
  std::function<void()> ours;
  std::function<void()> by_hand;
};

double seconds_of(const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return spent.count();
}

/// The value that `part` of the values lie below.
double quantile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size()));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

using line = mesh<axis::tensor>;
template <class State>
using held = tensor<float, dims<sequence, hidden>, placement<on<axis::tensor, State>>>;

// all_to_all of a matrix [rows, columns] from cut rows to cut columns, as one would write it: the
// rows arrive in the order of the ranks, which is their place.
void exchange_by_hand(const std::vector<float>& from, std::vector<float>& to,
                      std::vector<float>& packed, int ranks, std::size_t rows,
                      std::size_t columns) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t here = rows / n, width = columns / n;
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < here; ++i) {
      std::memcpy(&packed[(r * here + i) * width], &from[i * columns + r * width],
                  width * sizeof(float));
    }
  }
  const auto count = static_cast<int>(here * width);
  MPI_Alltoall(packed.data(), count, MPI_FLOAT, to.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
}

int measure(mpi_session& mpi, const std::string& file) {
  keep_pages();
  ledger book;
  communicator group(mpi.world(), "data", book);
  const int ranks = group.size();
  const bool speaks = group.rank() == 0;
  tenon::ranks<line> all_ranks(mpi.world(), line({ranks}));
  std::string rows;
  if (speaks)
    std::printf("%-36s %10s %12s %12s %8s %15s\n", "call", "bytes", "ours", "by hand", "ratio",
                "quartiles");
  for (std::int64_t bytes = 1 << 10; bytes <= 1 << 24; bytes *= 4) {
    const std::int64_t count =
        bytes / static_cast<std::int64_t>(sizeof(float)) / ranks;  // of a rank
    const auto whole_size = static_cast<std::size_t>(count * ranks);
    std::vector<float> whole(whole_size, 1.0F), result(whole_size);
    std::vector<float> piece(static_cast<std::size_t>(count), 1.0F);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), count);
    const std::vector<int> lengths(counts.size(), static_cast<int>(count));
    std::vector<int> places;
    for (int rank = 0; rank < ranks; ++rank) places.push_back(rank * static_cast<int>(count));
    const auto n = static_cast<int>(count), all = n * ranks;
    const std::span<const std::int64_t> cut(counts);
    const call_options known{.global_count = count * ranks * ranks};
    constexpr std::int64_t columns = 64;
    const std::int64_t rows_of_all = count * ranks / columns;
    const shape<dims<sequence, hidden>> extents{rows_of_all, columns};
    held<partial> terms(all_ranks, extents);
    std::fill(terms.values().begin(), terms.values().end(), 1.0F);
    held<sharded<sequence>> cut_rows(all_ranks, extents);
    std::fill(cut_rows.values().begin(), cut_rows.values().end(), 1.0F);
    std::vector<float> packed(piece.size()), exchanged(piece.size());
    const pair_of_calls pairs[] = {
        {"all_reduce", [&] { communicate::all_reduce(group, whole, std::span(result)); },
         [&] {
           MPI_Allreduce(whole.data(), result.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"all_gather", [&] { communicate::all_gather(group, piece, std::span(result), cut); },
         [&] {
           MPI_Allgather(piece.data(), n, MPI_FLOAT, result.data(), n, MPI_FLOAT, MPI_COMM_WORLD);
         }},
        {"reduce_scatter",
         [&] { communicate::reduce_scatter(group, whole, std::span(piece), cut); },
         [&] {
           MPI_Reduce_scatter(whole.data(), piece.data(), lengths.data(), MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD);
         }},
        {"all_to_all",
         [&] { communicate::all_to_all(group, whole, cut, std::span(result), cut, known); },
         [&] {
           MPI_Alltoallv(whole.data(), lengths.data(), places.data(), MPI_FLOAT, result.data(),
                         lengths.data(), places.data(), MPI_FLOAT, MPI_COMM_WORLD);
         }},
        {"redistribute: partial to invariant",
         [&] {
           const auto sum = redistribute<axis::tensor, invariant>(std::move(terms));
           terms =
               sum.relabelled(layout<dims<sequence, hidden>, placement<on<axis::tensor, partial>>>(
                   extents, all_ranks.grid()));
         },
         [&] {
           MPI_Allreduce(MPI_IN_PLACE, whole.data(), all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"redistribute: partial to sharded",
         [&] { redistribute<axis::tensor, sharded<sequence>>(terms); },
         [&] {
           MPI_Reduce_scatter(whole.data(), piece.data(), lengths.data(), MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD);
         }},
        {"redistribute: sharded to replicated",
         [&] { redistribute<axis::tensor, replicated>(cut_rows); },
         [&] {
           MPI_Allgather(piece.data(), n, MPI_FLOAT, result.data(), n, MPI_FLOAT, MPI_COMM_WORLD);
         }},
        {"redistribute: sharded to sharded",
         [&] { redistribute<axis::tensor, sharded<hidden>>(cut_rows); },
         [&] {
           exchange_by_hand(piece, exchanged, packed, ranks, static_cast<std::size_t>(rows_of_all),
                            columns);
         }},
        {"broadcast", [&] { communicate::broadcast(group, std::span(whole)); },
         [&] { MPI_Bcast(whole.data(), all, MPI_FLOAT, 0, MPI_COMM_WORLD); }},
    };
    const int repeats = bytes >= 1 << 22 ? 25 : (bytes >= 1 << 20 ? 101 : 401);
    for (const pair_of_calls& pair : pairs) {
      std::vector<double> ours, by_hand, ratios;
      for (int i = 0; i < repeats; ++i) {
        // Which goes first alternates: the second finds warm caches.
        if (i % 2 == 0) ours.push_back(seconds_of(pair.ours));
        by_hand.push_back(seconds_of(pair.by_hand));
        if (i % 2 != 0) ours.push_back(seconds_of(pair.ours));
        ratios.push_back(ours.back() / by_hand.back());
      }
      const double a = quantile(ours, 0.5), b = quantile(by_hand, 0.5);
      const double low = quantile(ratios, 0.25), high = quantile(ratios, 0.75);
      if (speaks) {
        std::printf("%-36s %10lld %9.1f us %9.1f us %8.3f   %5.3f - %5.3f\n", pair.name,
                    static_cast<long long>(bytes), a * 1e6, b * 1e6, a / b, low, high);
      }
      rows +=
          joined(rows.empty() ? "" : ",\n", "{\"call\": \"", pair.name, "\", \"bytes\": ", bytes,
                 ", \"ours_microseconds\": ", a * 1e6, ", \"by_hand_microseconds\": ", b * 1e6,
                 ", \"ratio\": ", a / b, ", \"ratio_lower_quartile\": ", low,
                 ", \"ratio_upper_quartile\": ", high, "}");
    }
  }
  if (speaks && !file.empty()) {
    std::ofstream out(file);
    out << "[" << rows << "]\n";
    require(out.good(), "--json: the file ", file, " cannot be written; name one that can");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [&](mpi_session& mpi) {
    std::string file;
    for (int i = 1; i < argc; ++i) {
      require(std::string(argv[i]) == "--json" && i + 1 < argc, "collectives: the word '", argv[i],
              "' is not known; use --json FILE or nothing");
      file = argv[++i];
    }
    return measure(mpi, file);
  });
}
