// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/element.hpp"
#include "tenon/communicate/communicator.hpp"
#include "tenon/communicate/point_to_point.hpp"
#include "tenon/communicate/reduction.hpp"
#include "tenon/kernel/overlap/row_pieces.hpp"
#include "tenon/memory/buffer.hpp"

// Gathers and scatters in pieces, one a rank, with work on each piece in between: what is sent is
// under way while products run. Rank r of d begins with piece r or r + 1 and goes round, so that at
// no time two ranks want the same of a third:
//
//   gather   rank 0 works on 0 1 2     scatter   rank 0 works on 1 2 0
//            rank 1 works on 1 2 0               rank 1 works on 2 0 1
//            rank 2 works on 2 0 1               rank 2 works on 0 1 2
//
// Source of the order: L.-W. Chang and others, FLUX: fast software-based communication overlap on
// GPUs through kernel fusion, 2024.
namespace tenon::inline v0::kernel {

namespace detail {

template <class T>
pending start_message(communicator& line, collective call, matrix_view<T> values, int partner,
                      std::string_view name, call_site site) {
  request r;
  r.call = call;
  r.element = kind_of<std::remove_const_t<T>>;
  r.from = values.data;
  r.to = const_cast<std::remove_const_t<T>*>(values.data);
  r.count = values.size();
  r.peer = partner;
  return line.call(r, {.tensor = name, .start_only = true}, site);
}

// Transports that make progress only when they are asked are asked.
inline void make_progress(std::vector<pending>& calls) {
  for (pending& call : calls) call.done();
}

template <class T>
matrix_view<T> matrix_in(buffer<T>& memory, std::int64_t first_row, std::int64_t rows,
                         std::int64_t columns) noexcept {
  T* begin = memory.data();
  return view_of(begin == nullptr ? begin : begin + first_row * columns, rows, columns);
}

}  // namespace detail

/// All-gather in pieces: `whole` gets the rows of all ranks, and work(piece, rows) runs on each as
/// soon as it is here, this rank's own first. `own` [rows.rows_of(rank)] follows one another, as
/// do the rows that `work` is given. Each rank sends its piece to every other:
/// (ranks - 1) x own elements.
/// Collective over the line. Errors: those of the transport.
template <class E, class Work>
void gather_in_pieces(communicator& line, const row_pieces& rows, matrix_view<const E> own,
                      matrix_view<E> whole, Work&& work, std::string_view name = {},
                      call_site site = call_site::here()) {
  const int ranks = line.size();
  const int me = line.rank();
  const bool direct = rows.follow_one_another();
  // Rows that do not follow one another arrive beside their place: in the order of the steps.
  buffer<E> arrived(direct ? 0 : (rows.all_rows() - rows.rows_of(me)) * whole.columns);
  std::vector<matrix_view<E>> places;
  std::vector<pending> coming;
  std::vector<pending> going;
  std::int64_t at = 0;
  for (int step = 1; step < ranks; ++step) {
    const int from = (me + step) % ranks;
    places.push_back(direct ? rows.of(whole, from)
                            : detail::matrix_in(arrived, at, rows.rows_of(from), whole.columns));
    at += rows.rows_of(from);
    coming.push_back(
        detail::start_message(line, collective::receive, places.back(), from, name, site));
  }
  for (int step = 1; step < ranks; ++step) {
    going.push_back(detail::start_message(line, collective::send, own, (me + ranks - step) % ranks,
                                          name, site));
  }
  work(me, own);
  rows.put(whole, me, own);
  for (int step = 1; step < ranks; ++step) {
    const auto i = static_cast<std::size_t>(step - 1);
    detail::make_progress(going);
    coming[i].wait();
    const matrix_view<const E> piece = places[i];
    work((me + step) % ranks, piece);
    if (!direct) rows.put(whole, (me + step) % ranks, piece);
  }
  for (pending& call : going) call.wait();
}

/// Reduce-scatter in pieces: `make(piece, rows)` makes this rank's term of each piece, the own one
/// last, and each is on its way to its owner while the next is made. `own` [rows.rows_of(rank)]
/// then is the sum of all ranks' terms, in the order of the ranks, rounded once. What `meanwhile`
/// does may use everything but `own`: it runs while the last terms come. This rank sends
/// all but its own rows.
/// Collective over the line. Errors: those of the transport.
template <class E, class Make, class Meanwhile>
void scatter_in_pieces(communicator& line, const row_pieces& rows, matrix_view<E> own, Make&& make,
                       Meanwhile&& meanwhile, std::string_view name = {},
                       call_site site = call_site::here()) {
  const int ranks = line.size();
  const int me = line.rank();
  const std::int64_t columns = own.columns;
  const std::int64_t own_rows = rows.rows_of(me);
  buffer<E> terms(own_rows * columns * ranks);  // of this rank's piece, by rank
  buffer<E> sent((rows.all_rows() - own_rows) * columns);
  std::vector<pending> coming;
  std::vector<pending> going;
  const auto term_of = [&](int rank) {
    return detail::matrix_in(terms, rank * own_rows, own_rows, columns);
  };
  for (int step = 1; step < ranks; ++step) {
    const int from = (me + ranks - step) % ranks;
    coming.push_back(
        detail::start_message(line, collective::receive, term_of(from), from, name, site));
  }
  std::int64_t at = 0;
  for (int step = 1; step < ranks; ++step) {
    const int to = (me + step) % ranks;
    const auto piece = detail::matrix_in(sent, at, rows.rows_of(to), columns);
    at += rows.rows_of(to);
    make(to, piece);
    going.push_back(detail::start_message(line, collective::send, piece, to, name, site));
    detail::make_progress(coming);
  }
  make(me, term_of(me));
  detail::make_progress(going);
  meanwhile();
  for (pending& call : coming) call.wait();
  if (!shapes_only::active()) {
    std::vector<const void*> sources;
    for (int r = 0; r < ranks; ++r) sources.push_back(term_of(r).data);
    tenon::detail::merge_in_order(kind_of<E>, reduction_kind::sum, sources, own_rows * columns,
                                  own.data);
  }
  for (pending& call : going) call.wait();
}

}  // namespace tenon::inline v0::kernel
