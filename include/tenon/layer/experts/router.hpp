// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "tenon/kernel/balance.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/kernel/rows/softmax.hpp"
#include "tenon/kernel/rows/top_k.hpp"
#include "tenon/layer/assignment.hpp"
#include "tenon/layer/loss.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/memory/seen_by_host.hpp"

namespace tenon::inline v0 {

namespace detail {

// The states of sums over the tokens of a sequence beside tokens placed by `P`: the terms of a sum
// where the sequence is cut.
template <class P>
struct sequence_sums_placement;
template <class... Ons>
struct sequence_sums_placement<placement<Ons...>> {
  template <class S>
  using held = std::conditional_t<cuts<S, sequence>, partial, S>;
  using type = placement<on<typename Ons::axis, held<typename Ons::held>>...>;
};

// A layout whose cuts are those of another tensor, in the same pieces.
template <class D, class P, class Other, class Placed>
layout<D, P> cut_alike(const shape<D>& global, const layout<Other, Placed>& as) {
  layout<D, P> where(global, as.grid());
  for_each_axis(std::type_identity<typename P::mesh_type>{}, [&]<class A>(A) {
    if constexpr (is_sharded<state_on_t<P, A>>) {
      if (as.template is_custom<A>()) {
        where = where.template with<A>(as.template partition_on<A>());
      }
    }
  });
  return where;
}

// True on the one rank, of those that hold a tensor placed by `P` alike, that is at coordinate 0 of
// all axes in the state that `Is` names.
template <template <class> class Is, class P>
bool is_first_where(const typename P::mesh_type& grid) {
  bool first = true;
  for_each_axis(std::type_identity<typename P::mesh_type>{}, [&]<class A>(A) {
    if constexpr (Is<state_on_t<P, A>>::value) {
      first = first && grid.template coordinate<A>() == 0;
    }
  });
  return first;
}
template <class S>
using holds_alike = std::is_same<S, replicated>;
template <class S>
using cuts_sequence = std::bool_constant<cuts<S, sequence>>;

}  // namespace detail

/// Chooses experts for tokens x [batch, sequence, hidden]: logits = x W, in the wide element; the
/// `experts_per_token` largest, of equal ones the lower expert; their softmax as shares, which is
/// the softmax over all experts with the chosen ones made to sum to 1.
///
/// W is replicated wherever tokens are cut, and held as x is elsewhere. Where x is replicated, the
/// gradient of the shares is partial (each rank has a part of every expert), and so W's is. The
/// balancing loss has a gradient of its own, whole on every rank: there it enters on one rank.
/// Source: A. Jiang and others, Mixtral of experts, 2024.
/// Thread-safety: none; it belongs to one rank's thread.
template <class In>
class expert_router {
  using E = typename In::element_type;
  using W = wide<E>;
  using P = typename In::placement_type;
  using mesh_type = typename In::mesh_type;
  using weight_type = parameter<E, dims<hidden, experts>,
                                weight_placement<P, dims<hidden>, dims<experts>, assignment<>>>;
  using sums_dims = dims<statistics, batch, experts>;
  using sums_placed = typename detail::sequence_sums_placement<P>::type;
  using sums_type = tensor<double, sums_dims, sums_placed>;

 public:
  /// The sums over the tokens of sequences, where the sequence is cut.
  using backward_transfers =
      typename detail::reducing_over<double, sums_dims, sums_placed, mesh_type>::type;

  struct choices {
    std::int64_t experts_per_token = 0;
    buffer<std::int32_t> experts;  // [tokens, experts per token]
    buffer<W> shares;              // [tokens, experts per token]
    buffer<W> all_shares;          // [tokens, experts]

    std::int64_t tokens() const {
      return experts_per_token == 0 ? 0 : shares.size() / experts_per_token;
    }
    auto chosen_view() const { return view_of(experts.data(), tokens(), experts_per_token); }
    auto share_view() const { return view_of(shares.data(), tokens(), experts_per_token); }
  };

  explicit expert_router(const layer_context<mesh_type>& context)
      : name_(context.name),
        state_(&context.state),
        experts_(context.sizes.template of<experts>()),
        experts_per_token_(context.sizes.experts_per_token),
        weight_(std::make_unique<weight_type>(
            context, parameter_declaration{context.name + ".weight", parameter_role::matrix,
                                           initial_values::normal(context.sizes.deviation)})) {
    require(experts_per_token_ >= 1 && experts_per_token_ <= experts_, "router ", context.name,
            ": each token would choose ", experts_per_token_, " of ", experts_,
            " experts; let it choose one or more of those that there are");
  }

  choices forward(const In& x) {
    const auto rows = x.matrix();
    const std::int64_t tokens = rows.rows;
    choices made{experts_per_token_, buffer<std::int32_t>(tokens * experts_per_token_),
                 buffer<W>(tokens * experts_per_token_), buffer<W>(tokens * experts_)};
    const auto logits = view_of(made.all_shares.data(), tokens, experts_);
    kernel::product(logits, rows, kernel::orientation::as_stored, weight_->use().matrix(),
                    kernel::orientation::as_stored);
    kernel::top_k(view_of(made.experts.data(), tokens, experts_per_token_),
                  view_of(made.shares.data(), tokens, experts_per_token_), logits);
    kernel::softmax(logits, logits);
    return made;
  }

  /// From the gradient of the shares [tokens, experts per token] adds to the gradient of x what
  /// comes through the choices, and to that of W. Collective where the sequence is cut.
  void backward(gradient_of_value<In>& dx, const buffer<W>& dshares, const In& x,
                const choices& made) {
    const std::int64_t tokens = made.tokens();
    buffer<W> slopes(tokens * experts_);
    const auto d_logits = view_of(slopes.data(), tokens, experts_);
    kernel::top_k_backward(d_logits, view_of(dshares.data(), tokens, experts_per_token_),
                           made.share_view(), made.chosen_view());
    add_balance(d_logits, x, made);
    if constexpr (std::is_same_v<E, W>) {
      add_products(dx, x, d_logits);
    } else {
      buffer<E> rounded(slopes.size());
      const auto narrow = view_of(rounded.data(), tokens, experts_);
      kernel::convert(narrow, d_logits);
      add_products(dx, x, narrow);
    }
  }

  template <class F>
  void for_each_parameter(F&& f) {
    f(*weight_);
  }

 private:
  void add_products(gradient_of_value<In>& dx, const In& x, matrix_view<E> d_logits) {
    kernel::product(weight_->gradient().matrix(), x.matrix(), kernel::orientation::transposed,
                    d_logits, kernel::orientation::as_stored, kernel::output::accumulate);
    kernel::product(dx.matrix(), d_logits, kernel::orientation::as_stored, weight_->use().matrix(),
                    kernel::orientation::transposed, kernel::output::accumulate);
  }

  // The balancing loss of the sequences here, whole on all ranks that have tokens of them.
  void add_balance(matrix_view<W> d_logits, const In& x, const choices& made) {
    const std::int64_t length = x.global_shape().template of<sequence>();
    sums_type terms(x.group(),
                    detail::cut_alike<sums_dims, sums_placed>(
                        {2, x.global_shape().template of<batch>(), experts_}, x.where()));
    const auto shares = view_of(made.all_shares.data(), made.tokens(), experts_);
    const auto half = terms.template extent<batch>();
    const auto all = view_of(terms.data(), 2 * half, experts_);
    if (made.tokens() == 0) terms.fill_with_zeros();
    kernel::balance_sums<W>(all.rows_from(0, half), all.rows_from(half, half), shares,
                            made.chosen_view(), length);
    const auto whole = detail::reduced_everywhere(std::move(terms), name_);
    if (shapes_only::active()) return;
    const auto sums = view_of(whole.data(), 2 * half, experts_);
    const auto fractions = sums.rows_from(0, half);
    const auto& grid = x.group().grid();
    // Counted once for each sequence, on the first of the ranks that share it.
    if (detail::is_first_where<detail::cuts_sequence, P>(grid)) {
      const seen_by_host<double> seen(whole.values());
      const auto on_host = view_of(seen.values().data(), 2 * half, experts_);
      for (std::int64_t s = 0; s < half; ++s) {
        for (std::int64_t e = 0; e < experts_; ++e) {
          state_->balance_sum += on_host(s, e) * on_host(half + s, e);
        }
      }
    }
    if (state_->balance_scale != 0 && detail::is_first_where<detail::holds_alike, P>(grid)) {
      kernel::balance_backward<W>(d_logits, shares, fractions, length, state_->balance_scale);
    }
  }

  std::string name_;
  const run_state* state_;
  std::int64_t experts_;
  std::int64_t experts_per_token_;
  std::unique_ptr<weight_type> weight_;
};

}  // namespace tenon::inline v0
