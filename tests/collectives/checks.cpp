// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace tenon_test {
namespace {

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
  std::vector<T> to = how.in_place ? from : std::vector<T>(from.size(), static_cast<T>(99.0F));
  std::span<T> result(to);
  const bytes_check bytes(group);
  const call_options options{.tensor = "a", .start_only = how.started};
  complete(how.in_place ? communicate::all_reduce(group, result, reduction, options)
                        : communicate::all_reduce(group, from, result, reduction, options));
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
  std::vector<T> whole;
  for (std::int64_t i = 0; i < length; ++i) whole.push_back(value<T>(group.rank(), i));
  std::vector<T> apart(static_cast<std::size_t>(cut[me]));
  std::span<T> piece = how.in_place ? std::span(whole).subspan(static_cast<std::size_t>(before),
                                                               static_cast<std::size_t>(cut[me]))
                                    : std::span(apart);
  const bytes_check bytes(group);
  complete(communicate::reduce_scatter(group, whole, piece, std::span(cut), reduction_kind::sum,
                                       {.tensor = "b", .start_only = how.started}));
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
  const auto before = static_cast<std::size_t>(sum_of(std::span(cut).first(me)));
  std::vector<T> whole(static_cast<std::size_t>(length), static_cast<T>(99.0F));
  std::vector<T> apart(static_cast<std::size_t>(cut[me]));
  std::span<T> piece =
      how.in_place ? std::span(whole).subspan(before, apart.size()) : std::span(apart);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    piece[i] = value<T>(group.rank(), static_cast<std::int64_t>(i));
  }
  const bytes_check bytes(group);
  complete(communicate::all_gather(group, piece, std::span(whole), std::span(cut),
                                   {.tensor = "c", .start_only = how.started}));
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
  std::vector<T> apart(static_cast<std::size_t>(sum_of(expected)));
  std::span<T> to(how.in_place ? from : apart);
  const bytes_check bytes(group);
  complete(communicate::all_to_all(
      group, from, std::span(sent), to, std::span(expected),
      {.tensor = "d", .start_only = how.started, .global_count = all_know ? all : varies}));
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
  std::vector<T> from, to;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < length; ++i) {
      from.push_back(rank == me ? static_cast<T>(99.0F) : value<T>(me + 3 * rank, i));
      to.push_back(rank == me ? value<T>(me + 3 * me, i) : static_cast<T>(99.0F));
    }
  }
  request r;
  r.call = collective::all_to_all;
  r.element = kind_of<T>;
  r.from = from.data();
  r.to = to.data();
  r.from_counts = r.to_counts = each;
  r.own_in_place = true;
  const bytes_check bytes(group);
  complete(group.call(r,
                      {.tensor = "i",
                       .start_only = started,
                       .global_count = all_know ? length * ranks * ranks : varies},
                      call_site::here()));
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
    std::vector<T> values;
    for (std::int64_t i = 0; i < length; ++i) values.push_back(value<T>(group.rank(), i));
    const bytes_check bytes(group);
    complete(communicate::broadcast(group, std::span(values), root,
                                    {.tensor = "e", .start_only = started}));
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
  std::vector<T> mine, got(static_cast<std::size_t>(length)), second(got);
  for (std::int64_t i = 0; i < length; ++i) mine.push_back(value<T>(me, i));
  const bytes_check bytes(group);
  pending other = communicate::receive(group, std::span(second), previous,
                                       {.tensor = "g", .start_only = true, .tag = 7});
  pending first =
      communicate::receive(group, std::span(got), previous, {.tensor = "f", .start_only = true});
  communicate::send(group, std::span<const T>(mine), next, {.tensor = "f"});
  communicate::send(group, std::span<const T>(mine), next, {.tensor = "g", .tag = 7});
  complete(std::move(first));
  complete(std::move(other));
  bytes.expect_elements(2 * length, sizeof(T), "send");
  for (std::int64_t i = 0; i < length; ++i) {
    const auto place = static_cast<std::size_t>(i);
    expect(equal(got[place], value<T>(previous, i)) && equal(second[place], value<T>(previous, i)),
           "message: element", i);
  }
  std::vector<T> passed(got.size());
  if (me == 0) {
    communicate::send(group, std::span(mine), next, {.tensor = "h"});
    communicate::receive(group, std::span(passed), previous, {.tensor = "h"});
    for (std::int64_t i = 0; i < length; ++i) {
      expect(equal(passed[static_cast<std::size_t>(i)], mine[static_cast<std::size_t>(i)]),
             "chain: element", i);
    }
  } else {
    communicate::receive(group, std::span(passed), previous, {.tensor = "h"});
    communicate::send(group, std::span(passed), next, {.tensor = "h"});
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
