// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/placement/layout.hpp"
#include "tenon/placement/move.hpp"

namespace tenon::inline v0 {

/// The moves of a program that send bytes, in the order in which they run.
template <class... Moves>
struct traffic {};

/// A move of one tensor, with what its price depends on: element, dims, and the placement before.
template <class Move, element Element, class Dims, class Placement>
struct transfer {
  using move_type = Move;
  using element_type = Element;
  using dims_type = Dims;
  using placement_type = Placement;
};

/// A list of transfers.
template <class... Transfers>
struct transfers {
  static constexpr std::size_t size = sizeof...(Transfers);
};

namespace detail {

template <class... Lists>
struct join_transfers {
  using type = transfers<>;
};
template <class... Ts>
struct join_transfers<transfers<Ts...>> {
  using type = transfers<Ts...>;
};
template <class... As, class... Bs, class... Rest>
struct join_transfers<transfers<As...>, transfers<Bs...>, Rest...> {
  using type = typename join_transfers<transfers<As..., Bs...>, Rest...>::type;
};

template <class Move, class E, class D, class P>
struct list_transfer {
  using type =
      std::conditional_t<communicates<Move>, transfers<transfer<Move, E, D, P>>, transfers<>>;
};

template <class Axis, class Op>
constexpr std::string_view move_name(all_reduce<Axis, Op>) {
  return "all_reduce";
}
template <class Axis, class D>
constexpr std::string_view move_name(all_gather<Axis, D>) {
  return "all_gather";
}
template <class Axis, class D>
constexpr std::string_view move_name(reduce_scatter<Axis, D>) {
  return "reduce_scatter";
}
template <class Axis, class D, class E>
constexpr std::string_view move_name(all_to_all<Axis, D, E>) {
  return "all_to_all";
}
template <class Axis, class D>
constexpr std::string_view move_name(spread<Axis, D>) {
  return "spread";
}
template <class Axis, class D>
constexpr std::string_view move_name(in_pieces<all_gather<Axis, D>>) {
  return "broadcast";
}
template <class Axis, class D>
constexpr std::string_view move_name(in_pieces<reduce_scatter<Axis, D>>) {
  return "reduce_scatter";
}

template <class Move>
inline constexpr bool is_spread = false;
template <class Axis, class D>
inline constexpr bool is_spread<spread<Axis, D>> = true;

template <class Move>
struct find_axis_of_move;
template <template <class...> class Move, class Axis, class... Rest>
struct find_axis_of_move<Move<Axis, Rest...>> {
  using type = Axis;
};
template <class Move>
struct find_axis_of_move<in_pieces<Move>> : find_axis_of_move<Move> {};

template <class Move>
inline constexpr bool is_in_pieces = false;
template <class Move>
inline constexpr bool is_in_pieces<in_pieces<Move>> = true;

}  // namespace detail

template <class... Lists>
using joined_transfers = typename detail::join_transfers<Lists...>::type;

/// The list of one transfer, or of none when the move is local.
template <class Move, class E, class D, class P>
using one_transfer = typename detail::list_transfer<Move, E, D, P>::type;

/// The bare moves of a list of transfers.
template <class Transfers>
struct traffic_of;
template <class... Ts>
struct traffic_of<transfers<Ts...>> {
  using type = traffic<typename Ts::move_type...>;
};
template <class Transfers>
using traffic_of_t = typename traffic_of<Transfers>::type;

template <class Move>
using axis_of_move = typename detail::find_axis_of_move<Move>::type;

/// "all_reduce", "all_gather", ...: as the ledger names the collective.
template <class Move>
inline constexpr std::string_view name_of_move = detail::move_name(Move{});

namespace detail {

// The elements of `before` that this rank sends (or receives) at the least. See elements_moved.
template <class A, class Op, class D, class P>
constexpr std::int64_t priced(all_reduce<A, Op>, const layout<D, P>& before) {
  const std::int64_t all = before.elements();
  const auto pieces = partition::balanced(all, before.grid().template extent<A>());
  return 2 * (all - pieces.of(before.grid().template coordinate<A>()).size);
}
template <class A, class Dim, class D, class P>
constexpr std::int64_t priced(all_gather<A, Dim>, const layout<D, P>& before) {
  // Without the cut of A, the rank would hold all of the dim that the outer axes leave.
  const std::int64_t own = before.template extent<Dim>();
  if (own == 0) {
    std::int64_t others = 1;
    for (std::size_t i = 0; i < D::size; ++i) {
      if (i != D::template position<Dim>) others *= before.regions()[i].size;
    }
    return others * before.template partition_on<A>().extent();
  }
  return before.elements() / own * (before.template partition_on<A>().extent() - own);
}
template <class A, class Dim, class D, class P>
constexpr std::int64_t priced(reduce_scatter<A, Dim>, const layout<D, P>& before) {
  return before.elements() - before.template moved<A, sharded<Dim>>().elements();
}
template <class A, class From, class To, class D, class P>
constexpr std::int64_t priced(all_to_all<A, From, To>, const layout<D, P>& before) {
  // Of its own piece the rank keeps the part that its new piece needs.
  const auto after = before.template moved<A, sharded<To>>();
  const std::int64_t whole = before.template extent<To>();
  if (whole == 0) return 0;
  return before.elements() / whole * (whole - after.template extent<To>());
}
// Every rank receives the pieces of all others, or gives its terms of their sums.
template <class Move, class D, class P>
constexpr std::int64_t priced(in_pieces<Move>, const layout<D, P>& before) {
  return priced(Move{}, before);
}

}  // namespace detail

/// The elements that must cross for this rank in a move of a tensor laid out as `before`,
/// independent of the algorithm. With local sizes m of M elements in all: all_gather receives
/// M - m, reduce_scatter sends M - m, all_reduce 2 (M - m), all_to_all what leaves the rank. A
/// spread is priced by `elements_spread`.
template <class Move, class Dims, class Placement>
constexpr std::int64_t elements_moved(const layout<Dims, Placement>& before) {
  static_assert(!detail::is_spread<Move>,
                "traffic: the price of a spread depends on the regions used; ask elements_spread");
  if constexpr (communicates<Move>) {
    return detail::priced(Move{}, before);
  } else {
    return 0;
  }
}

/// The elements of the regions `use` that this rank does not own: the price of a spread, forward
/// and backward.
template <class Axis, class Dims, class Placement>
constexpr std::int64_t elements_spread(const layout<Dims, Placement>& own,
                                       const layout<Dims, Placement>& use) {
  using dim = typename state_on_t<Placement, Axis>::dim;
  const std::int64_t mine = use.template extent<dim>();
  if (mine == 0) return 0;
  const region shared = intersection(own.template of<dim>(), use.template of<dim>());
  return use.elements() / mine * (mine - shared.size);
}

/// The bytes of a transfer for one rank; `global` has the extents of its dims.
template <class Transfer>
constexpr std::int64_t bytes_moved(const shape<typename Transfer::dims_type>& global,
                                   const typename Transfer::placement_type::mesh_type& grid) {
  const layout<typename Transfer::dims_type, typename Transfer::placement_type> before(global,
                                                                                       grid);
  return elements_moved<typename Transfer::move_type>(before) *
         static_cast<std::int64_t>(sizeof(typename Transfer::element_type));
}

/// The bytes of the rank that sends the most.
template <class Transfer>
constexpr std::int64_t busiest_bytes(const shape<typename Transfer::dims_type>& global,
                                     const typename Transfer::placement_type::mesh_type& grid) {
  std::int64_t most = 0;
  for (int r = 0; r < grid.size(); ++r) {
    most = std::max(most, bytes_moved<Transfer>(global, grid.seen_from(r)));
  }
  return most;
}

}  // namespace tenon::inline v0
