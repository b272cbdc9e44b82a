// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/communicate/transport.hpp"
#include "tenon/memory/buffer.hpp"

namespace tenon::inline v0::detail {

/// True for the reductions that the ranks do themselves: bf16, which travels in two bytes and is
/// added in fp32; pairs of log_sum_exp; and sums whose order is fixed.
constexpr bool reduced_in_order(const request& r, sum_order sums) noexcept {
  if (r.call != collective::all_reduce && r.call != collective::reduce_scatter) return false;
  if (r.element == element_kind::bf16 || r.reduction == reduction_kind::log_sum_exp) return true;
  const bool rounds = r.element == element_kind::fp32 || r.element == element_kind::fp64;
  return sums == sum_order::fixed && r.reduction == reduction_kind::sum && rounds;
}

/// A reduction as an exchange of pieces, a local merge in the order of the ranks, rounded once, and
/// for all_reduce a gather of the results. What crosses is the rule's least.
///
///   rank 0  a0 a1 a2    exchange   a0 b0 c0   merge   s0    gather   s0 s1 s2
///   rank 1  b0 b1 b2      ->       a1 b1 c1    ->     s1      ->     s0 s1 s2
///   rank 2  c0 c1 c2               a2 b2 c2           s2             s0 s1 s2
///
/// The gather begins in `wait`, never in `done`: so the ranks, which wait in the same order, also
/// begin it in the same order.
class ordered_reduction final : public in_flight {
 public:
  ordered_reduction(transport& group, const request& r)
      : group_(group), call_(r), pieces_(pieces_of(r, group.size())) {
    require_mergeable(r.element, r.reduction);
    const auto me = static_cast<std::size_t>(group.rank());
    mine_.assign(pieces_.size(), pieces_[me]);
    const std::int64_t before = sum_of(std::span(pieces_).first(me));
    // It is merged where the call's buffers lie, also by a rank that computes elsewhere.
    scratch_ = buffer<std::byte>(sum_of(mine_) * bytes_of(r.element), r.where);
    result_ = r.call == collective::all_reduce ? at(r.to, before, r.element)
                                               : static_cast<std::byte*>(r.to);
    call_.from_counts = {};
    call_.to_counts = {};
    call_.inside = r.call;
    call_.inside_count = global_count_of(r);
  }

  void run() {
    group_.run(exchange());
    merge();
    if (call_.inside == collective::all_reduce) group_.run(gather());
  }
  void start() { exchange_ = group_.start(exchange()); }
  void wait() override {
    exchange_.wait();
    if (!merged_) merge();
    if (call_.inside == collective::all_reduce) group_.run(gather());
  }
  bool done() override {
    if (!merged_ && exchange_.done()) {
      exchange_.wait();
      merge();
    }
    return merged_ && call_.inside != collective::all_reduce;
  }

 private:
  static std::vector<std::int64_t> pieces_of(const request& r, int size) {
    if (r.call == collective::reduce_scatter) return {r.from_counts.begin(), r.from_counts.end()};
    std::vector<std::int64_t> pieces;
    for (int rank = 0; rank < size; ++rank) {
      pieces.push_back(balanced_piece(r.count, size, rank, unit_of(r.reduction)));
    }
    return pieces;
  }

  request exchange() const {
    request r = call_;
    r.call = collective::all_to_all;
    r.to = const_cast<std::byte*>(scratch_.data());
    r.from_counts = pieces_;
    r.to_counts = mine_;
    r.global_count = sum_of(pieces_) * group_.size();
    return r;
  }
  request gather() const {
    request r = call_;
    r.call = collective::all_gather;
    r.from = result_;
    r.to_counts = pieces_;
    return r;
  }
  void merge() {
    const std::int64_t count = mine_.front();
    std::vector<const void*> sources;
    for (int rank = 0; rank < group_.size(); ++rank) {
      sources.push_back(at(std::as_const(scratch_).data(), rank * count, call_.element));
    }
    merge_in_order(call_.element, call_.reduction, sources, count, result_);
    scratch_ = {};
    merged_ = true;
  }

  transport& group_;
  request call_;
  std::vector<std::int64_t> pieces_;  // [size] elements of each rank's piece
  std::vector<std::int64_t> mine_;    // [size] this rank's piece, from each rank
  buffer<std::byte> scratch_;         // [size][mine_] this rank's piece of each rank
  std::byte* result_ = nullptr;
  bool merged_ = false;
  pending exchange_;  // last: it ends before the memory it uses
};

/// Nothing is sent, the scratch alone is held: for a run for shapes.
class ordered_reduction_shapes final : public in_flight {
 public:
  ordered_reduction_shapes(transport& group, const request& r) : held_(group, r) {}
  void wait() override {}
  bool done() override { return true; }

 private:
  ordered_reduction held_;
};

}  // namespace tenon::inline v0::detail
