// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tensor/redistribute.hpp"

namespace tenon::inline v0 {

namespace detail {

// What `giver` has and `taker` wants, as a run of indices of the dim.
inline std::int64_t shared_size(const partition& have, int giver, const partition& want,
                                int taker) {
  return intersection(have.of(giver), want.of(taker)).size;
}

// Where pieces of a dim come from or go to: an array of this rank, cut at `pieces` along the dim.
template <class E, std::size_t N>
struct cut_array {
  E* values;
  std::array<std::int64_t, N> extents;
  const partition* pieces;
};

// Sends each rank's pieces of `from` to the ranks whose regions of `to` they lie in; what comes is
// copied to its place, or added there in rank order. Made once for arrays of equal rank, whatever
// their dims are.
template <class E, std::size_t N>
void exchange_regions(communicator& line, std::size_t dim, const cut_array<const E, N>& from,
                      const cut_array<E, N>& to, bool add, std::string_view name, call_site site) {
  const partition& have = *from.pieces;
  const partition& want = *to.pieces;
  const int me = line.rank();
  const std::int64_t others = product_of(with_size(from.extents, dim, 1));
  const auto count = static_cast<std::size_t>(line.size());
  std::vector<std::int64_t> send(count);
  std::vector<std::int64_t> receive(count);
  std::int64_t sent = 0;
  std::int64_t taken = 0;
  std::int64_t all = 0;
  for (int r = 0; r < line.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    send[i] = shared_size(have, me, want, r) * others;
    receive[i] = shared_size(have, r, want, me) * others;
    sent += send[i];
    taken += receive[i];
    for (int s = 0; s < line.size(); ++s) all += shared_size(have, r, want, s) * others;
  }
  buffer<E> packed(sent);
  buffer<E> received(taken);
  if (!shapes_only::active()) {
    std::int64_t at = 0;
    for (int r = 0; r < line.size(); ++r) {
      const region part = intersection(have.of(me), want.of(r));
      const auto size = with_size(from.extents, dim, part.size);
      copy_block(packed.data() + at, whole(size), from.values,
                 from_index(from.extents, dim, part.begin - have.of(me).begin), size);
      at += product_of(size);
    }
  }
  line.call({.call = collective::all_to_all,
             .element = kind_of<E>,
             .from = packed.data(),
             .to = received.data(),
             .from_counts = send,
             .to_counts = receive,
             .global_count = all},
            {.tensor = name, .global_count = all}, site);
  if (shapes_only::active()) return;
  std::int64_t at = 0;
  for (int r = 0; r < line.size(); ++r) {
    const region part = intersection(have.of(r), want.of(me));
    const auto size = with_size(from.extents, dim, part.size);
    const auto place = from_index(to.extents, dim, part.begin - want.of(me).begin);
    const E* const values = received.data() + at;
    if (add) {
      add_block(to.values, place, values, whole(size), size);
    } else {
      copy_block(to.values, place, values, whole(size), size);
    }
    at += product_of(size);
  }
}
template <std::size_t D, class Axis, class E, class Dims, class P>
void exchange_between(const tensor<E, Dims, P>& from, const partition& have, tensor<E, Dims, P>& to,
                      const partition& want, bool add, std::string_view name, call_site site) {
  exchange_regions<E, Dims::size>(
      from.group().template on<Axis>(), D, {from.data(), sizes_of(from.where().regions()), &have},
      {to.data(), sizes_of(to.where().regions()), &want}, add, name, site);
}

}  // namespace detail

/// From the owners' pieces of the dim that `Axis` cuts to the regions that each rank uses, which
/// may overlap: kv heads on more ranks than there are, a tied row on two stages. The state stays
/// sharded; the result's partition is `use`. Bytes: what a rank uses and does not own.
/// Collective over the axis, unless every rank owns what it uses.
template <class Axis, class E, class D, class P>
tensor<E, D, P> spread_to(const tensor<E, D, P>& owned, const partition& use,
                          std::string_view name = {}, call_site site = call_site::here()) {
  static_assert(is_sharded<state_on_t<P, Axis>>,
                "spread_to: the tensor is not sharded on this axis; spread starts from the owners' "
                "pieces");
  using dim = typename state_on_t<P, Axis>::dim;
  constexpr std::size_t d = D::template position<dim>;
  const partition& own = owned.where().template partition_on<Axis>();
  if (own == use) return owned;
  detail::require_owned_once(own, Axis::name);
  tensor<E, D, P> used(owned.group(), owned.where().template with<Axis>(use));
  detail::exchange_between<d, Axis>(owned, own, used, use, false, name, site);
  return used;
}

/// The backward of `spread_to`: every use's gradient is added up where the element is owned, in
/// rank order; `own` is the owners' partition.
template <class Axis, class E, class D, class P>
tensor<E, D, P> sum_to_owners(const tensor<E, D, P>& used, const partition& own,
                              std::string_view name = {}, call_site site = call_site::here()) {
  static_assert(is_sharded<state_on_t<P, Axis>>,
                "sum_to_owners: the gradient is not sharded on this axis; it is the gradient of a "
                "spread tensor");
  using dim = typename state_on_t<P, Axis>::dim;
  constexpr std::size_t d = D::template position<dim>;
  const partition& use = used.where().template partition_on<Axis>();
  if (own == use) return used;
  auto owned = tensor<E, D, P>::zeros(used.group(), used.where().template with<Axis>(own));
  detail::exchange_between<d, Axis>(used, use, owned, own, true, name, site);
  return owned;
}

}  // namespace tenon::inline v0
