// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters in pieces over MPI: small messages and such as MPI sends only while both
// ranks are in a call, uneven and empty pieces, rows that follow one another or lie apart.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "tenon/communicate/mpi.hpp"
#include "tenon/kernel/overlap/exchange.hpp"

using namespace tenon;

namespace {

mpi_session& session() {
  static int argc = 0;
  static char** argv = nullptr;
  static mpi_session running(argc, argv);
  return running;
}

// The value of an element of the whole, and of a rank's term of it.
double value_of(std::int64_t row, std::int64_t column) {
  return static_cast<double>(row * 7 + column % 5);
}
double term_of(int rank, std::int64_t row, std::int64_t column) {
  return value_of(row, column) * (1 + rank);
}

void check_pieces(communicator& line, std::int64_t outer, std::int64_t extent,
                  std::int64_t columns) {
  const int me = line.rank();
  const int ranks = line.size();
  const kernel::row_pieces rows{outer, 1, partition::balanced(extent, ranks)};
  const region mine = rows.cut.of(me);
  const auto in_whole = [&](std::int64_t row) {  // of a row of the own piece
    return row / mine.size * extent + mine.begin + row % mine.size;
  };
  buffer<double> own(rows.rows_of(me) * columns);
  for (std::int64_t i = 0; i < own.size(); ++i) {
    own[i] = value_of(in_whole(i / columns), i % columns);
  }
  buffer<double> whole(rows.all_rows() * columns);
  std::vector<int> order;
  std::int64_t seen = 0;
  kernel::gather_in_pieces(line, rows,
                           view_of(std::as_const(own).data(), rows.rows_of(me), columns),
                           view_of(whole.data(), rows.all_rows(), columns),
                           [&](int piece, matrix_view<const double> part) {
                             order.push_back(piece);
                             seen += part.rows;
                           });
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < whole.size(); ++i) {
    wrong += whole[i] == value_of(i / columns, i % columns) ? 0 : 1;
  }
  BOOST_TEST(wrong == 0);
  BOOST_TEST(seen == rows.all_rows());
  for (int i = 0; i < ranks; ++i) {
    BOOST_TEST(order.at(static_cast<std::size_t>(i)) == (me + i) % ranks);
  }

  order.clear();
  bool all_made = false;
  kernel::scatter_in_pieces(
      line, rows, view_of(own.data(), rows.rows_of(me), columns),
      [&](int piece, matrix_view<double> to) {
        order.push_back(piece);
        const region part = rows.cut.of(piece);
        for (std::int64_t r = 0; r < to.rows; ++r) {
          const std::int64_t row = r / part.size * extent + part.begin + r % part.size;
          for (std::int64_t c = 0; c < columns; ++c) to(r, c) = term_of(me, row, c);
        }
      },
      [&] { all_made = static_cast<int>(order.size()) == ranks; });
  BOOST_TEST(all_made);
  wrong = 0;
  for (std::int64_t i = 0; i < own.size(); ++i) {
    const double sum = value_of(in_whole(i / columns), i % columns) * ranks * (ranks + 1) / 2;
    wrong += own[i] == sum ? 0 : 1;
  }
  BOOST_TEST(wrong == 0);
  for (int i = 0; i < ranks; ++i) {
    BOOST_TEST(order.at(static_cast<std::size_t>(i)) == (me + 1 + i) % ranks);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_equal_their_collectives) {
  for (const bool compare : {false, true}) {
    ledger book;
    communicator line(session().world(), "tensor", book, {.compare_every_call = compare});
    for (const std::int64_t outer : {0, 1, 3}) {
      for (const std::int64_t extent : {1, 3, 9}) check_pieces(line, outer, extent, 5);
    }
    check_pieces(line, 1, 37, 20'000);
    check_pieces(line, 2, 37, 20'000);
  }
}
