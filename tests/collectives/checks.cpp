// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"

namespace tenon_test {
namespace {

/// Values where the rank computes: on its device, when it has one, the host only copies them.
template <class T>
class rank_values {
 public:
  explicit rank_values(const std::vector<T>& values)
      : memory_(static_cast<std::int64_t>(values.size())) {
    copy_in(memory_.span(), std::span(values));
  }
  std::span<T> span() noexcept { return memory_.span(); }
  std::span<T> part(std::int64_t begin, std::int64_t count) noexcept {
    return span().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  std::vector<T> read() const { return read(memory_.span()); }
  static std::vector<T> read(std::span<const T> values) {
    std::vector<T> host(values.size());
    copy_out(std::span(host), values);
    return host;
  }

 private:
  buffer<T> memory_;
};

/// Small whole numbers, whose sums over eight ranks every element holds exactly.
template <class T>
T value(int rank, std::int64_t index) {
  return static_cast<T>(static_cast<float>((rank * 7 + index * 3) % 13 - (sizeof(T) > 1 ? 4 : 0)));
}

template <class T>
bool equal(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// What a call must add to the ledger and to the transport's own count of copied bytes.
class bytes_check {
 public:
  explicit bytes_check(communicator& group) : group_(group), before_(now()), copied_(copied()) {}
  void expect_elements(std::int64_t elements, std::int64_t size, const char* call) const {
    const std::int64_t right = group_.size() == 1 ? 0 : elements * size;
    expect(now() - before_ == right, call, now() - before_, right);
    if (copied() >= 0) expect(copied() - copied_ == right, call, copied() - copied_, right);
  }

 private:
  std::int64_t now() const {
    const auto sums = group_.book().bytes_by_axis();
    const auto found = sums.find(group_.axis());
    return found == sums.end() ? 0 : found->second;
  }
  std::int64_t copied() const { return group_.group().copied_bytes(); }

  communicator& group_;
  std::int64_t before_;
  std::int64_t copied_;
};

/// Balanced, reversed, all on one rank, and with holes.
inline std::vector<counts> ways_to_cut(std::int64_t length, int ranks) {
  counts balanced, reversed, one, holes;
  for (int rank = 0; rank < ranks; ++rank) {
    balanced.push_back(length / ranks + (rank < length % ranks ? 1 : 0));
    one.push_back(rank == ranks - 1 ? length : 0);
    holes.push_back(rank % 2 == 0 ? 0 : length / ranks + rank);
  }
  reversed.assign(balanced.rbegin(), balanced.rend());
  return {balanced, reversed, one, holes};
}

struct way {
  bool in_place;
  bool started;
};
inline constexpr way ways[] = {{false, false}, {true, false}, {false, true}, {true, true}};

/// Looks a few times, then waits.
inline void complete(pending call) {
  for (int look = 0; look < 3; ++look) call.done();
  call.wait();
  call.wait();  // a second time is nothing
}

template <class T>
void check_all_reduce(communicator& group, std::int64_t length, reduction_kind reduction, way how) {
  std::vector<T> from, right;
  for (std::int64_t i = 0; i < length; ++i) {
    from.push_back(value<T>(group.rank(), i));
    auto sum = static_cast<double>(value<T>(0, i));
    for (int rank = 1; rank < group.size(); ++rank) {
      const auto next = static_cast<double>(value<T>(rank, i));
      if (reduction == reduction_kind::sum) sum += next;
      if (reduction == reduction_kind::maximum) sum = std::max(sum, next);
      if (reduction == reduction_kind::minimum) sum = std::min(sum, next);
    }
    right.push_back(static_cast<T>(static_cast<float>(sum)));
  }
  rank_values<T> input(from);
  rank_values<T> output(how.in_place ? from : std::vector<T>(from.size(), static_cast<T>(99.0F)));
  const bytes_check bytes(group);
  const call_options options{.tensor = "a", .start_only = how.started};
  complete(how.in_place
               ? communicate::all_reduce(group, output.span(), reduction, options)
               : communicate::all_reduce(group, input.span(), output.span(), reduction, options));
  const std::vector<T> to = output.read();
  for (std::size_t i = 0; i < to.size(); ++i) {
    expect(equal(to[i], right[i]), "all_reduce: element", static_cast<std::int64_t>(i), length);
  }
  const std::int64_t own = length / group.size() + (group.rank() < length % group.size() ? 1 : 0);
  bytes.expect_elements(2 * (length - own), sizeof(T), "all_reduce");
}

template <class T>
void check_reduce_scatter(communicator& group, const counts& cut, way how) {
  const std::int64_t length = sum_of(cut);
  const auto me = static_cast<std::size_t>(group.rank());
  const std::int64_t before = sum_of(std::span(cut).first(me));
  std::vector<T> from;
  for (std::int64_t i = 0; i < length; ++i) from.push_back(value<T>(group.rank(), i));
  rank_values<T> whole(from);
  rank_values<T> apart(std::vector<T>(static_cast<std::size_t>(cut[me])));
  const std::span<T> to = how.in_place ? whole.part(before, cut[me]) : apart.span();
  const bytes_check bytes(group);
  complete(communicate::reduce_scatter(group, whole.span(), to, std::span(cut), reduction_kind::sum,
                                       {.tensor = "b", .start_only = how.started}));
  const std::vector<T> piece = rank_values<T>::read(to);
  for (std::int64_t i = 0; i < cut[me]; ++i) {
    double sum = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      sum += static_cast<double>(value<T>(rank, before + i));
    }
    expect(equal(piece[static_cast<std::size_t>(i)], static_cast<T>(static_cast<float>(sum))),
           "reduce_scatter: element", i, length);
  }
  bytes.expect_elements(length - cut[me], sizeof(T), "reduce_scatter");
}

template <class T>
void check_all_gather(communicator& group, const counts& cut, way how) {
  const std::int64_t length = sum_of(cut);
  const auto me = static_cast<std::size_t>(group.rank());
  const std::int64_t before = sum_of(std::span(cut).first(me));
  std::vector<T> own, empty(static_cast<std::size_t>(length), static_cast<T>(99.0F));
  for (std::int64_t i = 0; i < cut[me]; ++i) own.push_back(value<T>(group.rank(), i));
  if (how.in_place) std::copy(own.begin(), own.end(), empty.begin() + before);
  rank_values<T> output(empty), apart(own);
  const std::span<T> piece = how.in_place ? output.part(before, cut[me]) : apart.span();
  const bytes_check bytes(group);
  complete(communicate::all_gather(group, piece, output.span(), std::span(cut),
                                   {.tensor = "c", .start_only = how.started}));
  const std::vector<T> whole = output.read();
  std::size_t place = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    for (std::int64_t i = 0; i < cut[static_cast<std::size_t>(rank)]; ++i) {
      expect(equal(whole[place++], value<T>(rank, i)), "all_gather: element, rank", i, rank);
    }
  }
  bytes.expect_elements(length - cut[me], sizeof(T), "all_gather");
}

/// Rank a sends rank b (in place: each rank sends each) some elements; the numbers that b cannot
/// know are found by both from (a, b).
template <class T>
void check_all_to_all(communicator& group, std::int64_t length, way how, bool all_know) {
  const int ranks = group.size(), me = group.rank();
  const auto between = [&](int from, int to) -> std::int64_t {
    if (length == 0 || (from + to) % 3 == 2) return 0;
    return how.in_place ? length / ranks + (from + to) % 4 : length / ranks + (from + 2 * to) % 5;
  };
  counts sent, expected;
  std::int64_t all = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sent.push_back(between(me, rank));
    expected.push_back(between(rank, me));
    for (int other = 0; other < ranks; ++other) all += between(rank, other);
  }
  std::vector<T> from;
  for (int to = 0; to < ranks; ++to) {
    for (std::int64_t i = 0; i < between(me, to); ++i) from.push_back(value<T>(me + 3 * to, i));
  }
  rank_values<T> input(from);
  rank_values<T> apart(std::vector<T>(static_cast<std::size_t>(sum_of(expected))));
  rank_values<T>& output = how.in_place ? input : apart;
  const bytes_check bytes(group);
  complete(communicate::all_to_all(
      group, input.span(), std::span(sent), output.span(), std::span(expected),
      {.tensor = "d", .start_only = how.started, .global_count = all_know ? all : varies}));
  const std::vector<T> to = output.read();
  std::size_t place = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < between(rank, me); ++i) {
      expect(equal(to[place++], value<T>(rank + 3 * me, i)), "all_to_all: element, rank", i, rank);
    }
  }
  bytes.expect_elements(sum_of(sent) - between(me, me), sizeof(T), "all_to_all");
}

/// What a rank sends itself lies in its place already: it is neither read from `from` nor written.
template <class T>
void check_own_piece_in_place(communicator& group, std::int64_t length, bool started,
                              bool all_know) {
  const int ranks = group.size(), me = group.rank();
  const counts each(static_cast<std::size_t>(ranks), length);
  std::vector<T> from, own;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < length; ++i) {
      from.push_back(rank == me ? static_cast<T>(99.0F) : value<T>(me + 3 * rank, i));
      own.push_back(rank == me ? value<T>(me + 3 * me, i) : static_cast<T>(99.0F));
    }
  }
  rank_values<T> input(from), output(own);
  request r;
  r.call = collective::all_to_all;
  r.element = kind_of<T>;
  r.from = input.span().data();
  r.to = output.span().data();
  r.from_counts = r.to_counts = each;
  r.own_in_place = true;
  const bytes_check bytes(group);
  complete(group.call(r,
                      {.tensor = "i",
                       .start_only = started,
                       .global_count = all_know ? length * ranks * ranks : varies},
                      call_site::here()));
  const std::vector<T> to = output.read();
  std::size_t place = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < length; ++i) {
      expect(equal(to[place++], value<T>(rank + 3 * me, i)), "own piece in place: element, rank", i,
             rank);
    }
  }
  bytes.expect_elements(length * (ranks - 1), sizeof(T), "all_to_all");
}

template <class T>
void check_broadcast(communicator& group, std::int64_t length, bool started) {
  for (int root = 0; root < group.size(); ++root) {
    std::vector<T> given;
    for (std::int64_t i = 0; i < length; ++i) given.push_back(value<T>(group.rank(), i));
    rank_values<T> output(given);
    const bytes_check bytes(group);
    complete(
        communicate::broadcast(group, output.span(), root, {.tensor = "e", .start_only = started}));
    const std::vector<T> values = output.read();
    for (std::int64_t i = 0; i < length; ++i) {
      expect(equal(values[static_cast<std::size_t>(i)], value<T>(root, i)),
             "broadcast: element, root", i, root);
    }
    bytes.expect_elements(group.rank() == root ? 0 : length, sizeof(T), "broadcast");
  }
}

/// A ring: started receives, blocking sends; then a chain of blocking calls, with two tags.
template <class T>
void check_messages(communicator& group, std::int64_t length) {
  const int ranks = group.size(), me = group.rank();
  if (ranks == 1) return;
  const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;
  // What the two messages hold differs, so that one taken for the other is seen.
  std::vector<T> mine, mine_too, empty(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) mine.push_back(value<T>(me, i));
  for (std::int64_t i = 0; i < length; ++i) mine_too.push_back(value<T>(me + 1, i));
  rank_values<T> sent(mine), sent_too(mine_too), came(empty), came_too(empty);
  const bytes_check bytes(group);
  pending other = communicate::receive(group, came_too.span(), previous,
                                       {.tensor = "g", .start_only = true, .tag = 7});
  pending first =
      communicate::receive(group, came.span(), previous, {.tensor = "f", .start_only = true});
  communicate::send(group, sent.span(), next, {.tensor = "f"});
  communicate::send(group, sent_too.span(), next, {.tensor = "g", .tag = 7});
  complete(std::move(first));
  complete(std::move(other));
  bytes.expect_elements(2 * length, sizeof(T), "send");
  const std::vector<T> got = came.read(), second = came_too.read();
  for (std::int64_t i = 0; i < length; ++i) {
    const auto place = static_cast<std::size_t>(i);
    expect(
        equal(got[place], value<T>(previous, i)) && equal(second[place], value<T>(previous + 1, i)),
        "message: element", i);
  }
  rank_values<T> chained(empty);
  if (me == 0) {
    communicate::send(group, sent.span(), next, {.tensor = "h"});
    communicate::receive(group, chained.span(), previous, {.tensor = "h"});
    const std::vector<T> passed = chained.read();
    for (std::int64_t i = 0; i < length; ++i) {
      expect(equal(passed[static_cast<std::size_t>(i)], mine[static_cast<std::size_t>(i)]),
             "chain: element", i);
    }
  } else {
    communicate::receive(group, chained.span(), previous, {.tensor = "h"});
    communicate::send(group, chained.span(), next, {.tensor = "h"});
  }
}

/// Everything that every element can do.
template <class T>
void check_moving_calls(communicator& group, std::int64_t length) {
  for (const way how : ways) {
    for (const counts& cut : ways_to_cut(length, group.size()))
      check_all_gather<T>(group, cut, how);
    check_all_to_all<T>(group, length, how, true);
    check_all_to_all<T>(group, length, how, false);
  }
  for (const bool started : {false, true}) {
    for (const bool all_know : {false, true}) {
      check_own_piece_in_place<T>(group, length, started, all_know);
    }
  }
  check_broadcast<T>(group, length, false);
  check_broadcast<T>(group, length, true);
  check_messages<T>(group, length);
  complete(communicate::barrier(group));
  complete(communicate::barrier(group, {.start_only = true}));
}

template <class T>
void check_merging_calls(communicator& group, std::int64_t length) {
  for (const sum_order sums : {sum_order::any, sum_order::fixed}) {
    group.set_sums(sums);
    for (const way how : ways) {
      for (const counts& cut : ways_to_cut(length, group.size())) {
        check_reduce_scatter<T>(group, cut, how);
      }
      check_all_reduce<T>(group, length, reduction_kind::sum, how);
      check_all_reduce<T>(group, length, reduction_kind::maximum, how);
      check_all_reduce<T>(group, length, reduction_kind::minimum, how);
    }
  }
  group.set_sums(sum_order::any);
}

}  // namespace

void check_every_collective(communicator& group, std::int64_t length) {
  check_moving_calls<std::byte>(group, length);
  check_moving_calls<std::int32_t>(group, length);
  check_moving_calls<std::int64_t>(group, length);
  check_moving_calls<bf16>(group, length);
  check_moving_calls<fp32>(group, length);
  check_moving_calls<fp64>(group, length);
  check_merging_calls<std::int32_t>(group, length);
  check_merging_calls<std::int64_t>(group, length);
  check_merging_calls<bf16>(group, length);
  check_merging_calls<fp32>(group, length);
  check_merging_calls<fp64>(group, length);
}

}  // namespace tenon_test
