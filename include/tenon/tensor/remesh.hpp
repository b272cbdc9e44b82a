// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tensor/copy_block.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

namespace detail {

template <class P>
inline constexpr bool held_in_boxes = held_in_boxes<states_of_t<P>>;
template <class... Ons>
inline constexpr bool held_in_boxes<placement<Ons...>> =
    ((is_sharded<typename Ons::held> || std::is_same_v<typename Ons::held, invariant>)&&...);

template <std::size_t N>
using box = std::array<region, N>;

template <std::size_t N>
constexpr box<N> shared_box(const box<N>& a, const box<N>& b) {
  box<N> both{};
  for (std::size_t d = 0; d < N; ++d) both[d] = intersection(a[d], b[d]);
  return both;
}
template <std::size_t N>
constexpr std::int64_t elements_of(const box<N>& all) {
  std::int64_t product = 1;
  for (const region& r : all) product *= r.size;
  return product;
}

/// Who sends what to whom. Under sharded and invariant states the boxes of two ranks are the same
/// or share nothing, so that the boxes tile the tensor. A rank that needs elements of a box takes
/// them from itself, or from one of the box's holders; which, goes round with its number.
template <std::size_t N>
struct exchange_of_boxes {
  std::vector<box<N>> have;  // of each rank
  std::vector<box<N>> want;

  template <class D, class P, class D2, class P2>
  exchange_of_boxes(const layout<D, P>& from, const layout<D2, P2>& to) {
    const int ranks = from.grid().size();
    for (int r = 0; r < ranks; ++r) have.push_back(from.seen_from(r).regions());
    for (int r = 0; r < ranks; ++r) want.push_back(to.seen_from(r).regions());
  }

  /// The rank from which `taker` gets what it needs of the box of `holder`.
  int giver(int holder, int taker) const {
    const auto at = [&](int r) -> const box<N>& { return have[static_cast<std::size_t>(r)]; };
    if (at(taker) == at(holder)) return taker;
    std::vector<int> holders;
    for (int r = 0; r < static_cast<int>(have.size()); ++r) {
      if (at(r) == at(holder)) holders.push_back(r);
    }
    return holders[static_cast<std::size_t>(taker) % holders.size()];
  }
  /// What `from` sends to `to`; of size 0 when another holder does.
  box<N> sent(int from, int to) const {
    const box<N> both =
        shared_box(have[static_cast<std::size_t>(from)], want[static_cast<std::size_t>(to)]);
    if (elements_of(both) == 0 || giver(from, to) != from) return {};
    return both;
  }
};

template <std::size_t N>
block_in<N> within(const box<N>& whole_box, const box<N>& part) {
  block_in<N> block{};
  for (std::size_t d = 0; d < N; ++d) {
    block.extents[d] = whole_box[d].size;
    block.begin[d] = part[d].begin - whole_box[d].begin;
  }
  return block;
}
template <std::size_t N>
std::array<std::int64_t, N> size_of_box(const box<N>& all) {
  std::array<std::int64_t, N> size{};
  for (std::size_t d = 0; d < N; ++d) size[d] = all[d].size;
  return size;
}

}  // namespace detail

/// Placements that `remesh` leads from and to: every element is held, whole, by each rank that has
/// it.
template <class P>
concept remeshable = detail::held_in_boxes<P>;

/// Elements that the rank of `from` sends in `remesh` from one layout to another: what other ranks
/// need and do not hold, each taking it from one holder.
template <class D, class P, class Q>
std::int64_t remesh_elements(const layout<D, P>& from, const layout<D, Q>& to) {
  const detail::exchange_of_boxes<D::size> all(from, to);
  const int me = from.grid().rank();
  std::int64_t sent = 0;
  for (int r = 0; r < from.grid().size(); ++r) {
    if (r != me) sent += detail::elements_of(all.sent(me, r));
  }
  return sent;
}

/// The one move between two meshes over the same ranks, numbered alike: an all-to-all of the
/// intersections of what ranks hold and what they will hold. Its backward is the remesh back of the
/// gradient. The state on every axis of both meshes is sharded or invariant.
///
///   auto y = remesh<placement_there>(x, other_ranks, layout_there);
///
/// Collective over all ranks. Bytes: what a rank needs and did not hold. Errors: bad_request when
/// the meshes are of different numbers of ranks or the shapes differ.
template <class Q, class E, class D, class P>
tensor<E, D, Q> remesh(const tensor<E, D, P>& x, ranks<typename Q::mesh_type>& group,
                       const layout<D, Q>& to, std::string_view name = {},
                       call_site site = call_site::here()) {
  static_assert(remeshable<P> && remeshable<Q>,
                "remesh: a state is neither sharded nor invariant; reduce or gather it first, on "
                "its own mesh");
  require(x.group().size() == group.size() && x.where().grid().size() == to.grid().size(),
          "remesh: the meshes ", x.where().grid().text(), " and ", to.grid().text(),
          " are not over the same ranks");
  require(x.global_shape() == to.global(), "remesh: the shapes of ", name, " differ");
  tensor<E, D, Q> y(group, to);
  const detail::exchange_of_boxes<D::size> all(x.where(), to);
  const int me = x.where().grid().rank();
  const auto ranks_here = static_cast<std::size_t>(to.grid().size());
  std::vector<std::int64_t> send(ranks_here);
  std::vector<std::int64_t> receive(ranks_here);
  for (std::size_t r = 0; r < ranks_here; ++r) {
    send[r] = detail::elements_of(all.sent(me, static_cast<int>(r)));
    receive[r] = detail::elements_of(all.sent(static_cast<int>(r), me));
  }
  buffer<E> packed(sum_of(send));
  buffer<E> received(sum_of(receive));
  const bool moves = !shapes_only::active();
  std::int64_t at = 0;
  for (std::size_t r = 0; r < ranks_here && moves; ++r) {
    const auto part = all.sent(me, static_cast<int>(r));
    const auto size = detail::size_of_box(part);
    if (send[r] > 0) {
      detail::copy_block(packed.data() + at, {size, {}}, x.data(),
                         detail::within(x.where().regions(), part), size);
    }
    at += send[r];
  }
  // In units of one mesh's stage; every rank of it takes part.
  x.group()
      .along(ranks<typename P::mesh_type>::all_axes)
      .call({.call = collective::all_to_all,
             .element = kind_of<E>,
             .from = packed.data(),
             .to = received.data(),
             .from_counts = send,
             .to_counts = receive},
            {.tensor = name}, site);
  at = 0;
  for (std::size_t r = 0; r < ranks_here && moves; ++r) {
    const auto part = all.sent(static_cast<int>(r), me);
    const auto size = detail::size_of_box(part);
    if (receive[r] > 0) {
      detail::copy_block(y.data(), detail::within(y.where().regions(), part),
                         std::as_const(received).data() + at, {size, {}}, size);
    }
    at += receive[r];
  }
  return y;
}

}  // namespace tenon::inline v0
