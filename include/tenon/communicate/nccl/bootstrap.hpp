// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/communicate/nccl/lane.hpp"

namespace tenon::inline v0::detail {

/// A call of the library's own over the host.
inline request nccl_host_call(collective call, void* memory, std::int64_t bytes) {
  request r;
  r.call = call;
  r.from = r.to = memory;
  r.count = bytes;
  r.bookkeeping = true;
  r.where = place::host;
  r.axis = "of a split";
  r.tensor = "nccl";
  return r;
}

/// Collective: throws bad_request on every rank when two ranks are on one GPU; NCCL would not come
/// back from that in order.
inline void require_a_gpu_each(transport& host, std::string identity) {
  constexpr std::size_t length = 128;
  identity.resize(length);
  std::vector<char> all(length * static_cast<std::size_t>(host.size()));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(host.size()),
                                         static_cast<std::int64_t>(length));
  request gather = nccl_host_call(collective::all_gather, all.data(), 0);
  gather.from = identity.data();
  gather.to_counts = counts;
  host.run(gather);
  const auto of = [&](std::size_t rank) {
    return std::string_view(all.data() + rank * length, length);
  };
  for (std::size_t b = 1; b < counts.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      require(of(a) != of(b), "nccl: ranks ", a, " and ", b, " of ", host.size(),
              " are on one GPU (", of(a).substr(0, of(a).find('\0')),
              "), and NCCL takes one rank a GPU; give each rank a GPU of its own, or type "
              "--transport staged");
    }
  }
}

/// Collective: makes the communicator of all ranks of `host`. Rank 0 makes the id; when it cannot,
/// all ranks throw the same.
template <class Calls>
void begin_on_all(nccl_lane<Calls>& lane, Calls& calls, transport& host, double seconds) {
  static_assert(std::is_trivially_copyable_v<typename Calls::unique_id>,
                "nccl: the id is no bytes; it travels over the host as bytes");
  struct {
    typename Calls::unique_id id{};
    char failure[256] = {};
  } told;
  if (host.rank() == 0) {
    const auto made = calls.make_unique_id(told.id);
    if (calls.answer_of(made) != nccl_answer::done) {
      calls.text_of(made).copy(told.failure, sizeof(told.failure) - 1);
    }
  }
  host.run(nccl_host_call(collective::broadcast, &told, sizeof(told)));
  if (told.failure[0] != '\0') {
    throw error(error_kind::failed, joined("nccl: rank 0 of ", host.size(),
                                           " could not make the id of a communicator: ",
                                           std::string_view(told.failure)));
  }
  // All have the id before the first waits for the others in NCCL.
  host.run(nccl_host_call(collective::barrier, nullptr, 0));
  lane.begin(told.id);
  lane.wait_until_ready(seconds);
}

}  // namespace tenon::inline v0::detail
