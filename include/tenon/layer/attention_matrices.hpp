// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "tenon/kernel/fuse.hpp"
#include "tenon/layer/context_exchange.hpp"
#include "tenon/placement/dims.hpp"

namespace tenon::inline v0::detail {

// to = from, in another element.
template <class To, class From>
void convert_matrix(matrix_view<To> to, matrix_view<From> from) {
  kernel::run(kernel::read{from} | kernel::write{to});
}

/// The matrices that attention works on, [batch * tokens of the ring member, heads of this rank *
/// width]: the tensors themselves where no heads are exchanged, else memory of their own.
template <element E>
struct attention_matrices {
  using W = wide<E>;
  using held = held_matrix<E>;

  // A tensor as it is, and its kv heads that are read here.
  template <class T>
  static held held_of(T& x) {
    return {x.memory(), x.template matrix<2>()};
  }
  template <class T>
  static held used_of(T& x, const context_extents& e) {
    const region used = e.kv_heads_of(0);
    const std::int64_t begin = used.begin - x.where().template of<kv_heads>().begin;
    held all = held_of(x);
    if (used.size > 0) {
      require(begin >= 0 && begin + used.size <= x.template extent<kv_heads>(),
              "attention: heads read the kv heads ", used.begin, " to ", used.end(),
              ", and not all of them are on their rank; spread the kv heads over the ranks that "
              "use them");
    }
    all.view = all.view.columns_from(used.size == 0 ? 0 : begin * e.width, used.size * e.width);
    return all;
  }
  static held fresh_q(const context_extents& e) {
    return held::fresh(e.batch * e.tokens_of(e.member()).size,
                       e.heads_of(e.head_rank()).size * e.width);
  }
  static held fresh_k(const context_extents& e) {
    return held::fresh(e.batch * e.tokens_of(e.member()).size,
                       e.kv_heads_of(e.head_rank()).size * e.width);
  }

  // What one matrix sends for heads: a tensor with this rank's tokens and all heads, and the
  // matrix with the member's tokens and this rank's heads.
  template <class T, class HeadsOf>
  static exchanged_matrix<E> part_of(T& x, region held_heads, const held& here,
                                     const context_extents& e, bool add, HeadsOf&& heads_of) {
    const region tokens = e.tokens_of(e.member());
    const region own = e.piece(e.rank);
    exchanged_matrix<E> part{.from = x.data(),
                             .from_extents = {own.size, held_heads.size * e.width},
                             .to = here.view.data,
                             .to_extents = {tokens.size, here.view.columns},
                             .sent = {},
                             .taken = {},
                             .add = add};
    for (int h = 0; h < e.heads_parallel; ++h) {
      const region wanted = heads_of(h);
      const region piece = e.piece(e.member() * e.heads_parallel + h);
      const std::int64_t begin = wanted.size == 0 ? 0 : wanted.begin - held_heads.begin;
      require(begin >= 0 && begin + wanted.size <= held_heads.size,
              "attention: heads read kv heads that are not on their rank; spread the kv heads "
              "over the ranks that use them");
      part.sent.push_back({{0, own.size}, {begin * e.width, wanted.size * e.width}});
      part.taken.push_back({{piece.begin - tokens.begin, piece.size}, {0, here.view.columns}});
    }
    return part;
  }
  template <class T>
  static exchanged_matrix<E> part_of_q(T& x, const held& here, const context_extents& e) {
    return part_of(x, x.where().template of<heads>(), here, e, false,
                   [&](int h) { return e.heads_of(h); });
  }
  template <class T>
  static exchanged_matrix<E> part_of_k(T& x, const held& here, const context_extents& e) {
    return part_of(x, x.where().template of<kv_heads>(), here, e, true,
                   [&](int h) { return e.kv_heads_of(h); });
  }
  // Keys and values of this rank as they go round, and the two in such a block.
  static buffer<E> packed(const held& k, const held& v, const context_extents& e) {
    buffer<E> block(e.block(e.member()));
    convert_matrix(half_of<E>(block, 0, e, e.member()), k.view);
    convert_matrix(half_of<E>(block, 1, e, e.member()), v.view);
    return block;
  }
  template <class T, class Buffer>
  static matrix_view<T> half_of(Buffer& block, int half, const context_extents& e, int member) {
    const std::int64_t columns = e.kv_heads_of(e.head_rank()).size * e.width;
    const std::int64_t rows = e.batch * e.tokens_of(member).size;
    T* begin = block.data();
    return view_of(begin == nullptr ? begin : begin + half * rows * columns, rows, columns);
  }

  // One result in the wide element, in the place of what is asked for or beside it.
  struct wide_result {
    buffer<W> beside;
    matrix_view<W> view;
  };
  static wide_result wide_of(const held& asked) {
    if constexpr (std::is_same_v<E, W>) {
      return {{}, asked.view};
    } else {
      wide_result result{buffer<W>(asked.view.rows * asked.view.columns), {}};
      result.view = view_of(result.beside.data(), asked.view.rows, asked.view.columns);
      return result;
    }
  }
  static void store(const held& asked, const wide_result& result) {
    if constexpr (!std::is_same_v<E, W>) convert_matrix(asked.view, result.view);
  }
};

}  // namespace tenon::inline v0::detail
