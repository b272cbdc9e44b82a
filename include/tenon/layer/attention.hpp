// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/kernel/attention.hpp"
#include "tenon/layer/attention_input.hpp"
#include "tenon/layer/attention_matrices.hpp"
#include "tenon/layer/dropout.hpp"

namespace tenon::inline v0 {

namespace detail {

// What attention sends over the ranks of the context axis, when these cut the sequence.
template <bool Cut, class E, class Q>
struct attention_transfers {
  using forward = transfers<>;
  using backward = transfers<>;
};
template <class E, class Q>
struct attention_transfers<true, E, Q> {
  template <bool Backward>
  using both_ways =
      transfers<context_transfer<all_to_all<axis::context_heads, sequence, heads>, Backward, E, Q>,
                context_transfer<ring_pass<axis::context_ring>, Backward, E, Q>,
                context_transfer<ring_pass<axis::context_outer_ring>, Backward, E, Q>,
                context_transfer<all_to_all<axis::context_heads, heads, sequence>, Backward, E, Q>>;
  using forward = both_ways<false>;
  using backward = both_ways<true>;
};

// For each head of `mine`, the kv head among `kv` that it reads; all in global numbers.
inline std::vector<int> kv_heads_read(region mine, region kv, std::int64_t heads_of_kv) {
  std::vector<int> map;
  for (std::int64_t h = mine.begin; h < mine.end(); ++h) {
    const std::int64_t read = h / heads_of_kv;
    require(read >= kv.begin && read < kv.end(), "attention: head ", h, " reads kv head ", read,
            ", which is not on its rank; spread the kv heads over the ranks that use them");
    map.push_back(static_cast<int>(read - kv.begin));
  }
  return map;
}

}  // namespace detail

/// Causal attention: from query, key and value, softmax(q k^T / sqrt(width)) v for each head. There
/// may be fewer kv heads than heads: head h reads kv head h / (heads / kv_heads). With dropout, the
/// probabilities are dropped as a function of their global place. Packed documents do not see one
/// another.
///
/// Where axis::context cuts the sequence, `sizes.context` says how: ranks that are next to one
/// another exchange their tokens for heads, then keys and values go round the ring of the rest and
/// results are merged by their log-sum-exps in the wide element; the gradients of keys and values
/// follow in the wide element. One rank a ring member is ring attention, one member is Ulysses.
/// See `context_extents`.
/// Sources: A. Vaswani and others, Attention is all you need, 2017; J. Ainslie and others, GQA,
/// 2023; T. Dao and others, FlashAttention, 2022; H. Liu and others, Ring attention, 2023; S.
/// Jacobs and others, DeepSpeed Ulysses, 2023; D. Gu and others, LoongTrain, 2024.
struct causal_attention {
  template <class In>
  class bound : public without_parameters {
    using checked = detail::attention_input<In>;
    using query_type = typename checked::query_type;
    using key_type = typename checked::key_type;
    using Q = typename query_type::placement_type;
    using E = typename query_type::element_type;
    using W = wide<E>;
    using mesh_type = typename query_type::mesh_type;
    using matrices = detail::attention_matrices<E>;
    using held = typename matrices::held;
    static constexpr bool exchanges = any_cut_of<Q, sequence>;  // then axis::context does

   public:
    using output_type = query_type;
    using forward_transfers = typename detail::attention_transfers<exchanges, E, Q>::forward;
    using backward_transfers = typename detail::attention_transfers<exchanges, E, Q>::backward;
    /// Of this rank's heads and of all tokens of its ring member.
    struct saved_type {
      typename query_type::ranks_type* group;
      typename query_type::layout_type q_where;
      typename key_type::layout_type k_where;
      held q, k, v, o;
      buffer<W> log_sum_exp;  // [batch, heads, tokens]
      kernel::attention_dropout drop;
      std::shared_ptr<const packed_documents> documents;
    };

    /// Collective over the stage where the sequence is cut.
    explicit bound(const layer_context<mesh_type>& context)
        : name_(context.name), state_(&context.state), sizes_(&context.sizes) {
      if constexpr (exchanges) {
        const auto [order, together, window] = context.sizes.context;
        const int all = context.group.grid().template extent<axis::context>();
        require(together >= 1 && all % together == 0, "attention: ", together,
                " ranks exchange tokens for heads on a context axis of ", all,
                "; give a number that divides it");
        require(window >= 0 && (window == 0 || all / together % window == 0),
                "attention: windows of ", window, " were asked for in a ring of ", all / together,
                "; give a number that divides it, or 0");
        groups_.emplace(context.group, extents(context.group.grid()));
      }
    }

    std::pair<output_type, saved_type> forward(In x) {
      auto& [q, k, v] = x;
      const context_extents e = extents_of(q, k);
      output_type o(q.group(), q.where());
      saved_type saved{.group = &q.group(),
                       .q_where = q.where(),
                       .k_where = k.where(),
                       .q = {},
                       .k = {},
                       .v = {},
                       .o = {},
                       .log_sum_exp = buffer<W>(e.batch * e.heads_of(e.head_rank()).size *
                                                e.tokens_of(e.member()).size),
                       .drop = drop_of(q, e),
                       .documents = state_->documents};
      if (e.heads_parallel == 1) {
        saved.q = matrices::held_of(q);
        saved.k = matrices::used_of(k, e);
        saved.v = matrices::used_of(v, e);
        saved.o = matrices::held_of(o);
      } else {
        saved.q = matrices::fresh_q(e);
        saved.k = matrices::fresh_k(e);
        saved.v = matrices::fresh_k(e);
        saved.o = matrices::fresh_q(e);
        send_for_heads(e, {matrices::part_of_q(q, saved.q, e), matrices::part_of_k(k, saved.k, e),
                           matrices::part_of_k(v, saved.v, e)});
        x = In{};
      }
      attend(saved, e);
      if (e.heads_parallel > 1) send_for_tokens(e, {matrices::part_of_q(o, saved.o, e)});
      return {std::move(o), std::move(saved)};
    }

    gradient_of_value<In> backward(gradient_of_value<query_type> gradient, saved_type saved) {
      const context_extents e = extents_of(saved.q_where, saved.k_where);
      held slope = matrices::held_of(gradient);
      if (e.heads_parallel > 1) {
        slope = matrices::fresh_q(e);
        send_for_heads(e, {matrices::part_of_q(gradient, slope, e)});
        gradient = {};
      }
      using q_gradient = gradient_of_value<query_type>;
      using k_gradient = gradient_of_value<key_type>;
      q_gradient dq(*saved.group, gradient_layout(saved.q_where));
      k_gradient dk(*saved.group, gradient_layout(saved.k_where));
      k_gradient dv(*saved.group, gradient_layout(saved.k_where));
      if (e.heads_parallel > 1 || e.kv_heads_of(0) != saved.k_where.template of<kv_heads>()) {
        dk.fill_with_zeros();
        dv.fill_with_zeros();
      }
      if (e.heads_parallel == 1) {
        differentiate(matrices::held_of(dq), matrices::used_of(dk, e), matrices::used_of(dv, e),
                      slope, saved, e);
      } else {
        held dq_here = matrices::fresh_q(e);
        held dk_here = matrices::fresh_k(e);
        held dv_here = matrices::fresh_k(e);
        differentiate(dq_here, dk_here, dv_here, slope, saved, e);
        send_for_tokens(e,
                        {matrices::part_of_q(dq, dq_here, e), matrices::part_of_k(dk, dk_here, e),
                         matrices::part_of_k(dv, dv_here, e)});
      }
      return {std::move(dq), std::move(dk), std::move(dv)};
    }

   private:
    // The part of the extents that no tensor is needed for.
    context_extents extents(const mesh_type& grid) const {
      context_extents e;
      if constexpr (exchanges) {
        e.context = grid.template extent<axis::context>();
        e.rank = grid.template coordinate<axis::context>();
        e.heads_parallel = sizes_->context.heads_parallel;
        e.ring_window = sizes_->context.ring_window;
      }
      return e;
    }
    template <class QLayout, class KLayout>
    context_extents extents_of(const QLayout& q, const KLayout& k) const {
      if constexpr (is_tensor<QLayout>) {
        return extents_of(q.where(), k.where());
      } else {
        const auto all_heads = q.global().template of<heads>();
        const auto all_kv = k.global().template of<kv_heads>();
        require(all_kv > 0 && all_heads % all_kv == 0, "attention: ", all_kv, " kv heads for ",
                all_heads, " heads; kv heads must divide heads");
        context_extents e = extents(q.grid());
        e.batch = q.template extent<batch>();
        e.sequence = q.global().template of<sequence>();
        e.heads = q.template of<heads>();
        e.heads_of_kv = all_heads / all_kv;
        e.width = q.template extent<head_width>();
        require(q.template extent<sequence>() == e.piece(e.rank).size, "attention: a rank has ",
                q.template extent<sequence>(), " tokens where the balanced piece is ",
                e.piece(e.rank).size, "; cut the sequence in balanced pieces");
        return e;
      }
    }

    void send_for_heads(const context_extents& e,
                        std::vector<detail::exchanged_matrix<E>> parts) const {
      for (auto& part : parts) part.add = false;
      groups_->exchange(parts, e.batch, name_, call_site::here());
    }
    void send_for_tokens(const context_extents& e,
                         std::vector<detail::exchanged_matrix<E>> parts) const {
      for (auto& part : parts) {
        std::swap(part.from, part.to);
        std::swap(part.from_extents, part.to_extents);
        std::swap(part.sent, part.taken);
      }
      groups_->exchange(parts, e.batch, name_, call_site::here());
    }

    void attend(saved_type& saved, const context_extents& e) const {
      const std::vector<int> map = reads(e);
      if (e.members() == 1) {
        kernel::attention(saved.o.view, saved.log_sum_exp.span(), saved.q.view, saved.k.view,
                          saved.v.view, shape_of(saved, e, map, e.member()));
        return;
      }
      if constexpr (exchanges) {
        const auto sums = matrices::wide_of(saved.o);
        groups_->go_round(
            e, matrices::packed(saved.k, saved.v, e), name_,
            [&](const buffer<E>& block, int t, int s) {
              const int origin = e.origin(t, s);
              kernel::attention_to_block<E>(
                  sums.view, saved.log_sum_exp.span(), saved.q.view,
                  matrices::template half_of<const E>(block, 0, e, origin),
                  matrices::template half_of<const E>(block, 1, e, origin),
                  shape_of(saved, e, map, origin),
                  origin == e.member() ? kernel::output::overwrite : kernel::output::accumulate);
            });
        matrices::store(saved.o, sums);
      }
    }

    void differentiate(const held& dq, const held& dk, const held& dv, const held& slope,
                       const saved_type& saved, const context_extents& e) const {
      const std::vector<int> map = reads(e);
      if (e.members() == 1) {
        kernel::attention_backward(dq.view, dk.view, dv.view, slope.view, saved.q.view,
                                   saved.k.view, saved.v.view, saved.o.view,
                                   saved.log_sum_exp.span(), shape_of(saved, e, map, e.member()));
        return;
      }
      if constexpr (exchanges) {
        const auto sums = matrices::wide_of(dq);
        buffer<W> own = groups_->go_round_backward(
            e, matrices::packed(saved.k, saved.v, e), name_,
            [&](const buffer<E>& block, int t, int s, buffer<W>& gradient) {
              const int origin = e.origin(t, s);
              kernel::attention_backward_of_block<E>(
                  sums.view, matrices::template half_of<W>(gradient, 0, e, origin),
                  matrices::template half_of<W>(gradient, 1, e, origin), slope.view, saved.q.view,
                  matrices::template half_of<const E>(block, 0, e, origin),
                  matrices::template half_of<const E>(block, 1, e, origin), saved.o.view,
                  saved.log_sum_exp.span(), shape_of(saved, e, map, origin),
                  origin == e.member() ? kernel::output::overwrite : kernel::output::accumulate);
            });
        matrices::store(dq, sums);
        detail::convert_matrix(dk.view, matrices::template half_of<W>(own, 0, e, e.member()));
        detail::convert_matrix(dv.view, matrices::template half_of<W>(own, 1, e, e.member()));
      }
    }

    static std::vector<int> reads(const context_extents& e) {
      return detail::kv_heads_read(e.heads_of(e.head_rank()), e.kv_heads_of(e.head_rank()),
                                   e.heads_of_kv);
    }

    kernel::attention_dropout drop_of(const query_type& q, const context_extents& e) const {
      return {.p = detail::dropped_share(*state_),
              .stream = random_stream(state_->seed, name_ + ".probabilities",
                                      static_cast<std::uint64_t>(state_->step)),
              .batch_begin = state_->batch_begin,
              .head_begin = e.heads_of(e.head_rank()).begin,
              .heads_global = q.global_shape().template of<heads>(),
              .q_length_global = e.sequence,
              .k_length_global = e.sequence};
    }

    // This rank's queries and the keys of a ring member.
    kernel::attention_shape shape_of(const saved_type& saved, const context_extents& e,
                                     const std::vector<int>& kv_of_head, int member) const {
      const token_order order = order_on(saved.q_where.grid(), e.sequence, sizes_->context);
      const auto runs_of = [&](int m) {
        return exchanges ? order.runs_of_member(m) : position_runs{};
      };
      return {.batch = e.batch,
              .q_length = e.tokens_of(e.member()).size,
              .k_length = e.tokens_of(member).size,
              .heads = e.heads_of(e.head_rank()).size,
              .kv_heads = e.kv_heads_of(e.head_rank()).size,
              .width = e.width,
              .scale = 1.0 / std::sqrt(static_cast<double>(e.width)),
              .kv_of_head = kv_of_head,
              .q_positions = runs_of(e.member()),
              .k_positions = runs_of(member),
              .dropout = saved.drop,
              .document_begins = saved.documents == nullptr ? std::span<const std::int32_t>()
                                                            : saved.documents->begins(),
              .positions = e.sequence};
    }

    std::string name_;
    const run_state* state_;
    const dim_sizes* sizes_;
    std::optional<detail::context_groups<mesh_type>> groups_;
  };
};

}  // namespace tenon::inline v0
