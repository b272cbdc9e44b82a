// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/placement/traffic.hpp"

namespace tenon::inline v0 {

/// A transfer beside products that may run in pieces, one a rank, while the products do: then it is
/// (ranks - 1) messages and no collective. Where it stands in a list of traffic, it is its move.
template <class Transfer>
struct overlappable : Transfer {
  using whole = Transfer;
};

template <class Transfer>
inline constexpr bool is_overlappable = false;
template <class Transfer>
inline constexpr bool is_overlappable<overlappable<Transfer>> = true;

namespace detail {

template <class A, class Dim, class D, class P>
constexpr std::int64_t sent_in_pieces(all_gather<A, Dim>, const layout<D, P>& before) {
  return before.elements() * (before.grid().template extent<A>() - 1);
}
template <class A, class Dim, class D, class P>
constexpr std::int64_t sent_in_pieces(reduce_scatter<A, Dim> move, const layout<D, P>& before) {
  return priced(move, before);
}

template <class List>
struct find_list_in_pieces;
template <class... Ts>
struct find_list_in_pieces<transfers<Ts...>> {
  using type = transfers<overlappable<Ts>...>;
};

}  // namespace detail

/// The transfers of a list, all of which may run in pieces.
template <class List>
using list_in_pieces = typename detail::find_list_in_pieces<List>::type;

/// The bytes that a rank sends in the messages of such a transfer: to gather, its piece to every
/// other rank; to scatter, all but its piece.
template <class Transfer>
constexpr std::int64_t bytes_sent_in_pieces(
    const shape<typename Transfer::dims_type>& global,
    const typename Transfer::placement_type::mesh_type& grid) {
  const layout<typename Transfer::dims_type, typename Transfer::placement_type> before(global,
                                                                                       grid);
  return detail::sent_in_pieces(typename Transfer::move_type{}, before) *
         static_cast<std::int64_t>(sizeof(typename Transfer::element_type));
}

}  // namespace tenon::inline v0
