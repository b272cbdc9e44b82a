// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/communicate/all_gather.hpp"
#include "tenon/communicate/communicator.hpp"
#include "tenon/kernel/routing.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/seen_by_host.hpp"
#include "tenon/placement/partition.hpp"

namespace tenon::inline v0 {

/// The bytes that one exchange of rows sends from this rank: dispatch sends the rows of slots to
/// the experts' ranks, the way back sends the rows of this rank's experts to the tokens' ranks.
/// `counts` [ranks, experts]: the slots of each rank by expert.
struct dispatch_bytes {
  std::int64_t dispatch = 0;
  std::int64_t back = 0;
};
inline dispatch_bytes bytes_of_dispatch(std::span<const std::int64_t> counts,
                                        const partition& experts_of_ranks, int rank,
                                        std::int64_t bytes_of_row) {
  dispatch_bytes sent;
  const std::int64_t experts = experts_of_ranks.extent();
  const region mine = experts_of_ranks.of(rank);
  for (int r = 0; r < experts_of_ranks.parts(); ++r) {
    for (std::int64_t e = 0; e < experts; ++e) {
      const bool here = e >= mine.begin && e < mine.end();
      const auto rows = counts[static_cast<std::size_t>(r * experts + e)];
      if (r == rank && !here) sent.dispatch += rows * bytes_of_row;
      if (r != rank && here) sent.back += rows * bytes_of_row;
    }
  }
  return sent;
}

/// The way of slots to the ranks of their experts and back, made from what one forward chose.
/// Nothing is dropped: an expert takes as many rows as chose it. The host makes it, and on a device
/// waits for the choices.
///
///   sent      on the tokens' rank     | expert 0 | expert 1 | ...      in an expert by token
///   received  on the experts' rank    | from rank 0: its experts | from rank 1 | ...
///   grouped   on the experts' rank    | expert 3: from rank 0, 1, ... | expert 4: ... |
///
/// Thread-safety: none; it belongs to one rank's thread.
class expert_dispatch {
 public:
  expert_dispatch() = default;

  /// Collective over `line`: tells all its ranks how many slots go to each expert. `chosen`
  /// [slots]. In a run for shapes the choices are not known: the slots of all ranks,
  /// `slots_of_ranks` [ranks], are then taken to choose all experts alike.
  expert_dispatch(communicator& line, const partition& experts_of_ranks,
                  const buffer<std::int32_t>& chosen, std::span<const std::int64_t> slots_of_ranks,
                  std::string_view name)
      : line_(&line), counts_(line.size() * experts_of_ranks.extent(), place::host) {
    const std::int64_t all = experts_of_ranks.extent();
    const int ranks = line.size();
    const region mine = experts_of_ranks.of(line.rank());
    const bool dry = shapes_only::active();
    table_.resize(static_cast<std::size_t>(ranks * all));
    buffer<std::int64_t> row_of_slot(chosen.size(), place::host);
    buffer<std::int64_t> slot_of_row(chosen.size(), place::host);
    if (dry) {
      for (int r = 0; r < ranks; ++r) {
        const auto alike =
            partition::balanced(slots_of_ranks[static_cast<std::size_t>(r)], static_cast<int>(all));
        for (int e = 0; e < all; ++e) table_[at(r, e)] = alike.of(e).size;
      }
    } else {
      const auto own = counts_.span().subspan(at(line.rank(), 0), static_cast<std::size_t>(all));
      const seen_by_host<std::int32_t> choices(chosen.span());
      kernel::sort_slots(row_of_slot.span(), slot_of_row.span(), own, choices.values());
      communicate::all_gather<std::int64_t>(line, own, counts_.span(),
                                            {.tensor = name, .where = place::host});
      table_.assign(counts_.span().begin(), counts_.span().end());
    }
    row_of_slot_ = moved_in(std::move(row_of_slot));
    slot_of_row_ = moved_in(std::move(slot_of_row));
    for (int r = 0; r < ranks; ++r) {
      const region its = experts_of_ranks.of(r);
      std::int64_t to = 0;
      std::int64_t from = 0;
      for (std::int64_t e = its.begin; e < its.end(); ++e) to += table_[at(line.rank(), e)];
      for (std::int64_t e = mine.begin; e < mine.end(); ++e) from += table_[at(r, e)];
      sent_.push_back(to);
      received_.push_back(from);
    }
    for (std::int64_t e = mine.begin; e < mine.end(); ++e) {
      std::int64_t rows = 0;
      for (int r = 0; r < ranks; ++r) rows += table_[at(r, e)];
      rows_of_experts_.push_back(rows);
    }
    if (ranks > 1) order_received(mine, dry);
  }

  /// The slots of all ranks by expert, [ranks, experts].
  std::span<const std::int64_t> counts() const noexcept { return table_; }
  /// The rows of each expert of this rank.
  std::span<const std::int64_t> rows_of_experts() const noexcept { return rows_of_experts_; }
  /// The place of each slot among the rows sent, and the inverse.
  std::span<const std::int64_t> row_of_slot() const noexcept { return row_of_slot_.span(); }
  std::span<const std::int64_t> slot_of_row() const noexcept { return slot_of_row_.span(); }

  /// Collective: rows of `width` in the order sent become rows grouped by expert.
  template <element E>
  buffer<E> to_experts(buffer<E> sent, std::int64_t width, std::string_view name) const {
    if (line_->size() == 1) return sent;
    buffer<E> received = exchanged(std::move(sent), sent_, received_, width, name);
    return reordered(std::move(received), received_of_grouped_, width);
  }
  /// Collective: the way back, of rows grouped by expert into the order sent.
  template <element E>
  buffer<E> to_tokens(buffer<E> grouped, std::int64_t width, std::string_view name) const {
    if (line_->size() == 1) return grouped;
    buffer<E> received = reordered(std::move(grouped), grouped_of_received_, width);
    return exchanged(std::move(received), received_, sent_, width, name);
  }

 private:
  std::size_t at(int rank, std::int64_t expert) const noexcept {
    const auto all = std::ssize(table_) / line_->size();
    return static_cast<std::size_t>(rank * all + expert);
  }

  // Pairs the places of a row in `received` and in `grouped`.
  void order_received(region mine, bool dry) {
    const std::int64_t rows = sum_of(received_);
    buffer<std::int64_t> received_of_grouped(rows, place::host);
    buffer<std::int64_t> grouped_of_received(rows, place::host);
    std::int64_t received = 0;
    for (int r = 0; r < line_->size() && !dry; ++r) {
      std::int64_t group = 0;  // where the rows of an expert begin
      for (std::int64_t e = mine.begin; e < mine.end(); ++e) {
        std::int64_t grouped = group;
        for (int before = 0; before < r; ++before) grouped += table_[at(before, e)];
        for (std::int64_t i = 0; i < table_[at(r, e)]; ++i, ++received, ++grouped) {
          received_of_grouped[grouped] = received;
          grouped_of_received[received] = grouped;
        }
        group += rows_of_experts_[static_cast<std::size_t>(e - mine.begin)];
      }
    }
    received_of_grouped_ = moved_in(std::move(received_of_grouped));
    grouped_of_received_ = moved_in(std::move(grouped_of_received));
  }

  template <element E>
  buffer<E> exchanged(buffer<E> from, const std::vector<std::int64_t>& from_rows,
                      const std::vector<std::int64_t>& to_rows, std::int64_t width,
                      std::string_view name) const {
    std::vector<std::int64_t> from_counts(from_rows);
    std::vector<std::int64_t> to_counts(to_rows);
    for (std::int64_t& count : from_counts) count *= width;
    for (std::int64_t& count : to_counts) count *= width;
    buffer<E> to(sum_of(to_counts));
    line_->call({.call = collective::all_to_all,
                 .element = kind_of<E>,
                 .from = from.data(),
                 .to = to.data(),
                 .from_counts = from_counts,
                 .to_counts = to_counts},
                {.tensor = name}, call_site::here());
    return to;
  }

  template <element E>
  static buffer<E> reordered(buffer<E> from, const buffer<std::int64_t>& index,
                             std::int64_t width) {
    buffer<E> to(from.size());
    kernel::gather_rows<E>(view_of(to.data(), index.size(), width),
                           view_of(from.data(), index.size(), width), index.span());
    return to;
  }

  communicator* line_ = nullptr;
  buffer<std::int64_t> row_of_slot_;
  buffer<std::int64_t> slot_of_row_;
  buffer<std::int64_t> counts_;  // [ranks, experts], as gathered
  buffer<std::int64_t> received_of_grouped_;
  buffer<std::int64_t> grouped_of_received_;
  std::vector<std::int64_t> table_;     // the same, in a run for shapes too
  std::vector<std::int64_t> sent_;      // rows to each rank
  std::vector<std::int64_t> received_;  // rows from each rank
  std::vector<std::int64_t> rows_of_experts_;
};

}  // namespace tenon::inline v0
