// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/base/check.hpp"
#include "tenon/communicate/call.hpp"
#include "tenon/communicate/rank_counts.hpp"
#include "tenon/placement/move.hpp"
#include "tenon/tensor/copy_block.hpp"
#include "tenon/tensor/tensor.hpp"

namespace tenon::inline v0 {

namespace detail {

template <std::size_t N>
std::array<std::int64_t, N> sizes_of(const std::array<region, N>& regions) noexcept {
  std::array<std::int64_t, N> sizes{};
  for (std::size_t d = 0; d < N; ++d) sizes[d] = regions[d].size;
  return sizes;
}
template <std::size_t N>
block_in<N> whole(const std::array<std::int64_t, N>& extents) noexcept {
  return {extents, {}};
}
template <std::size_t N>
block_in<N> from_index(const std::array<std::int64_t, N>& extents, std::size_t dim,
                       std::int64_t begin) noexcept {
  block_in<N> block{extents, {}};
  block.begin[dim] = begin;
  return block;
}
template <std::size_t N>
std::array<std::int64_t, N> with_size(std::array<std::int64_t, N> sizes, std::size_t dim,
                                      std::int64_t size) noexcept {
  sizes[dim] = size;
  return sizes;
}
template <std::size_t N>
std::int64_t product_of(const std::array<std::int64_t, N>& sizes) noexcept {
  std::int64_t product = 1;
  for (std::int64_t s : sizes) product *= s;
  return product;
}
// True when `dim` is the slowest dim that has more than one index, so that its pieces follow one
// another in memory and need no packing.
template <std::size_t N>
bool is_outermost(const std::array<std::int64_t, N>& sizes, std::size_t dim) noexcept {
  for (std::size_t d = 0; d < dim; ++d) {
    if (sizes[d] != 1) return false;
  }
  return true;
}

inline void require_owned_once(const partition& pieces, std::string_view axis) {
  require(pieces.covers_once(), "redistribute: the tensor is spread on axis ", axis,
          ", its pieces overlap; only products, local functions and attention take it");
}

// The layout after a move that makes a new cut: balanced, unless a partition is given for it.
template <class Axis, class To, class D, class P>
auto layout_after(const layout<D, P>& before, const partition* cut) {
  auto after = before.template moved<Axis, To>();
  if constexpr (is_sharded<To>) {
    if (cut != nullptr) {
      require_owned_once(*cut, Axis::name);
      return after.template with<Axis>(*cut);
    }
  }
  return after;
}

template <class Op>
inline constexpr reduction_kind reduction_of = std::is_same_v<Op, reduction::maximum>
                                                   ? reduction_kind::maximum
                                                   : (std::is_same_v<Op, reduction::log_sum_exp>
                                                          ? reduction_kind::log_sum_exp
                                                          : reduction_kind::sum);

template <class Axis, class Op, class To, class E, class D, class P>
auto moved(all_reduce<Axis, Op>, std::type_identity<To>, tensor<E, D, P> x, std::string_view name,
           call_site site, const partition* cut) {
  auto& line = x.group().template on<Axis>();
  if (line.size() > 1) {
    if (!x.only_holder()) x = x.clone();
    line.call({.call = collective::all_reduce,
               .element = kind_of<E>,
               .reduction = reduction_of<Op>,
               .from = x.data(),
               .to = x.data(),
               .count = x.elements()},
              {.tensor = name}, site);
  }
  return x.relabelled(layout_after<Axis, To>(x.where(), cut));
}

// Pieces of `Dim` arrive rank after rank; unless Dim is outermost they are then put in place:
//
//   received  | rank 0: [outer, m0, inner] | rank 1: [outer, m1, inner] | ...
//   result    [outer, m0 + m1 + ..., inner]
template <class Axis, class Dim, class To, class E, class D, class P>
auto moved(all_gather<Axis, Dim>, std::type_identity<To>, tensor<E, D, P> x, std::string_view name,
           call_site site, const partition* cut) {
  constexpr std::size_t dim = D::template position<Dim>;
  auto& line = x.group().template on<Axis>();
  const partition& pieces = x.where().template partition_on<Axis>();
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (line.size() == 1) return x.relabelled(after);
  require_owned_once(pieces, Axis::name);
  using result_type = tensor<E, D, with_state<P, Axis, To>>;
  result_type result(x.group(), after);
  const auto have = sizes_of(x.where().regions());
  const auto want = sizes_of(after.regions());
  const std::int64_t others = product_of(with_size(want, dim, 1));
  rank_counts counts(line.size());
  for (int r = 0; r < line.size(); ++r) counts[r] = pieces.of(r).size * others;
  const bool direct = is_outermost(want, dim);
  buffer<E> received(direct ? 0 : result.elements());
  line.call({.call = collective::all_gather,
             .element = kind_of<E>,
             .from = x.data(),
             .to = direct ? result.data() : received.data(),
             .to_counts = counts},
            {.tensor = name}, site);
  if (!direct && !shapes_only::active()) {
    std::int64_t at = 0;
    for (int r = 0; r < line.size(); ++r) {
      const auto size = with_size(have, dim, pieces.of(r).size);
      copy_block(result.data(), from_index(want, dim, pieces.of(r).begin), received.data() + at,
                 whole(size), size);
      at += counts[r];
    }
  }
  return result;
}

template <class Axis, class Dim, class To, class E, class D, class P>
auto moved(reduce_scatter<Axis, Dim>, std::type_identity<To>, tensor<E, D, P> x,
           std::string_view name, call_site site, const partition* cut) {
  constexpr std::size_t dim = D::template position<Dim>;
  auto& line = x.group().template on<Axis>();
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (line.size() == 1) return x.relabelled(after);
  using result_type = tensor<E, D, with_state<P, Axis, To>>;
  result_type result(x.group(), after);
  const partition& pieces = after.template partition_on<Axis>();
  const auto have = sizes_of(x.where().regions());
  const std::int64_t others = product_of(with_size(have, dim, 1));
  rank_counts counts(line.size());
  for (int r = 0; r < line.size(); ++r) counts[r] = pieces.of(r).size * others;
  const bool direct = is_outermost(have, dim);
  buffer<E> packed(direct ? 0 : x.elements());
  if (!direct && !shapes_only::active()) {
    std::int64_t at = 0;
    for (int r = 0; r < line.size(); ++r) {
      const auto size = with_size(have, dim, pieces.of(r).size);
      copy_block(packed.data() + at, whole(size), std::as_const(x).data(),
                 from_index(have, dim, pieces.of(r).begin), size);
      at += counts[r];
    }
  }
  line.call({.call = collective::reduce_scatter,
             .element = kind_of<E>,
             .from = direct ? x.data() : packed.data(),
             .to = result.data(),
             .from_counts = counts},
            {.tensor = name}, site);
  return result;
}

template <class Axis, class From, class Into, class To, class E, class D, class P>
auto moved(all_to_all<Axis, From, Into>, std::type_identity<To>, tensor<E, D, P> x,
           std::string_view name, call_site site, const partition* cut) {
  constexpr std::size_t from_dim = D::template position<From>;
  constexpr std::size_t into_dim = D::template position<Into>;
  auto& line = x.group().template on<Axis>();
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (line.size() == 1) return x.relabelled(after);
  const partition& held = x.where().template partition_on<Axis>();
  require_owned_once(held, Axis::name);
  const partition& wanted = after.template partition_on<Axis>();
  using result_type = tensor<E, D, with_state<P, Axis, To>>;
  result_type result(x.group(), after);
  const auto have = sizes_of(x.where().regions());
  const auto want = sizes_of(after.regions());
  rank_counts send(line.size());
  rank_counts receive(line.size());
  // Pieces that follow one another in memory are sent from, or received into, their place.
  const bool sent_in_place = is_outermost(have, into_dim);
  const bool received_in_place = is_outermost(want, from_dim);
  buffer<E> packed(sent_in_place ? 0 : x.elements());
  buffer<E> received(received_in_place ? 0 : result.elements());
  const int me = line.rank();
  std::int64_t at = 0;
  for (int r = 0; r < line.size(); ++r) {
    const auto size = with_size(have, into_dim, wanted.of(r).size);
    send[r] = product_of(size);
    receive[r] = product_of(with_size(want, from_dim, held.of(r).size));
    const auto source = from_index(have, into_dim, wanted.of(r).begin);
    if (shapes_only::active()) continue;
    if (r == me) {  // not by way of the others' buffers
      copy_block(result.data(), from_index(want, from_dim, held.of(r).begin),
                 std::as_const(x).data(), source, size);
    } else if (!sent_in_place) {
      copy_block(packed.data() + at, whole(size), std::as_const(x).data(), source, size);
    }
    at += product_of(size);
  }
  const std::int64_t all = product_of(with_size(have, from_dim, held.extent()));
  line.call({.call = collective::all_to_all,
             .element = kind_of<E>,
             .from = sent_in_place ? x.data() : packed.data(),
             .to = received_in_place ? result.data() : received.data(),
             .from_counts = send,
             .to_counts = receive,
             .global_count = all,
             .own_in_place = true},
            {.tensor = name, .global_count = all}, site);
  if (received_in_place || shapes_only::active()) return result;
  at = 0;
  for (int r = 0; r < line.size(); ++r) {
    const auto size = with_size(want, from_dim, held.of(r).size);
    if (r != me) {
      copy_block(result.data(), from_index(want, from_dim, held.of(r).begin), received.data() + at,
                 whole(size), size);
    }
    at += product_of(size);
  }
  return result;
}

template <class Axis, class Dim, class To, class E, class D, class P>
auto moved(local_slice<Axis, Dim>, std::type_identity<To>, tensor<E, D, P> x, std::string_view,
           call_site, const partition* cut) {
  constexpr std::size_t dim = D::template position<Dim>;
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (x.group().template on<Axis>().size() == 1) return x.relabelled(after);
  using result_type = tensor<E, D, with_state<P, Axis, To>>;
  result_type result(x.group(), after);
  if (shapes_only::active()) return result;
  const region piece = after.template partition_on<Axis>().of(x.group().template on<Axis>().rank());
  const auto size = sizes_of(after.regions());
  copy_block(result.data(), whole(size), std::as_const(x).data(),
             from_index(sizes_of(x.where().regions()), dim, piece.begin), size);
  return result;
}

template <class Axis, class Dim, class To, class E, class D, class P>
auto moved(pad_with_zeros<Axis, Dim>, std::type_identity<To>, tensor<E, D, P> x, std::string_view,
           call_site, const partition* cut) {
  constexpr std::size_t dim = D::template position<Dim>;
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (x.group().template on<Axis>().size() == 1) return x.relabelled(after);
  const partition& held = x.where().template partition_on<Axis>();
  require_owned_once(held, Axis::name);
  using result_type = tensor<E, D, with_state<P, Axis, To>>;
  result_type result = result_type::zeros(x.group(), after);
  if (shapes_only::active()) return result;
  const region piece = held.of(x.group().template on<Axis>().rank());
  const auto size = sizes_of(x.where().regions());
  copy_block(result.data(), from_index(sizes_of(after.regions()), dim, piece.begin),
             std::as_const(x).data(), whole(size), size);
  return result;
}

template <class Axis, class To, class E, class D, class P>
auto moved(keep_on_one<Axis>, std::type_identity<To>, tensor<E, D, P> x, std::string_view,
           call_site, const partition* cut) {
  const auto after = layout_after<Axis, To>(x.where(), cut);
  if (x.group().template on<Axis>().rank() == 0) return x.relabelled(after);
  return tensor<E, D, with_state<P, Axis, To>>::zeros(x.group(), after);
}

template <class To, class Axis, class E, class D, class P>
auto kept(tensor<E, D, P> x) {
  return x.relabelled(x.where().template moved<Axis, To>());
}

}  // namespace detail

/// Brings a tensor to state `To` on `Axis` by the one move that leads there (see `move`): forward
/// this is the move itself; backward, apply it to the gradient with the state of the gradient of
/// what the tensor was. Collective over the ranks of the axis, unless the move is local.
///
///   tensor<bf16, dims<sequence, hidden>, placement<on<axis::tensor, partial>>> y;
///   auto z = redistribute<axis::tensor, sharded<sequence>>(y);    // a reduce-scatter
///
/// The values stay where they are when nothing moves; a sum is done in place when `x` is the only
/// holder of its memory (give it by std::move).
/// A new cut is balanced, unless `cut` names a partition for it.
/// Errors: bad_request for a tensor that is spread on the axis; those of the transport.
template <class Axis, class To, class E, class D, class P>
auto redistribute(tensor<E, D, P> x, std::string_view name = {}, const partition* cut = nullptr,
                  call_site site = call_site::here()) {
  static_assert(mesh_axis<Axis> && state<To>,
                "redistribute: an axis and a state are needed; write redistribute<axis::tensor, "
                "replicated>(x)");
  static_assert(states_of_t<P>::template names<Axis>,
                "redistribute: the tensor does not name this axis; use an axis of its mesh");
  if constexpr (states_of_t<P>::template names<Axis>) {
    using from = state_on_t<P, Axis>;
    static_assert(has_move<Axis, from, To>,
                  "redistribute: no move leads from the tensor's state to the one asked for; see "
                  "the table of moves");
    static_assert(cuts_only<with_state<states_of_t<P>, Axis, To>, D>,
                  "redistribute: the dim to cut is not a dim of the tensor; cut one of its dims");
    static_assert(!has_move<Axis, from, To> || can_redistribute<P, Axis, To>,
                  "redistribute: another axis cuts the same dim inside this one; move that axis "
                  "first");
    // Only what is legal is compiled on, so that nothing but the sentence is printed.
    if constexpr (cuts_only<with_state<states_of_t<P>, Axis, To>, D> &&
                  can_redistribute<P, Axis, To>) {
      using step = move<Axis, from, To>;
      if constexpr (std::is_same_v<step, nothing>) {
        return detail::kept<To, Axis>(std::move(x));
      } else {
        return detail::moved(step{}, std::type_identity<To>{}, std::move(x), name, site, cut);
      }
    }
  }
}

}  // namespace tenon::inline v0
