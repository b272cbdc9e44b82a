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

// Sends each rank's pieces of [have] to the ranks whose regions of [want] they lie in, then calls
// put(block of the result, received values, extents) for the piece of every rank, in rank order.
template <class Axis, class Dim, class E, class D, class P, class Put>
void exchange_regions(const tensor<E, D, P>& x, const partition& have, const partition& want,
                      std::string_view name, call_site site, Put&& put) {
  constexpr std::size_t dim = D::template position<Dim>;
  auto& line = x.group().template on<Axis>();
  const int me = line.rank();
  const auto held = sizes_of(x.where().regions());
  const std::int64_t others = product_of(with_size(held, dim, 1));
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
      const auto size = with_size(held, dim, part.size);
      copy_block(packed.data() + at, whole(size), x.data(),
                 from_index(held, dim, part.begin - have.of(me).begin), size);
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
    const auto size = with_size(held, dim, part.size);
    put(part.begin - want.of(me).begin, received.data() + at, size);
    at += product_of(size);
  }
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
  const auto extents = detail::sizes_of(used.where().regions());
  detail::exchange_regions<Axis, dim>(
      owned, own, use, name, site, [&](std::int64_t begin, const E* values, const auto& size) {
        detail::copy_block(used.data(), detail::from_index(extents, d, begin), values,
                           detail::whole(size), size);
      });
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
  const auto extents = detail::sizes_of(owned.where().regions());
  detail::exchange_regions<Axis, dim>(
      used, use, own, name, site, [&](std::int64_t begin, const E* values, const auto& size) {
        detail::add_block(owned.data(), detail::from_index(extents, d, begin), values,
                          detail::whole(size), size);
      });
  return owned;
}

}  // namespace tenon::inline v0
