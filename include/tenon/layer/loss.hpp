// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/kernel/rows/cross_entropy.hpp"
#include "tenon/kernel/sum.hpp"
#include "tenon/layer/row_statistics.hpp"

namespace tenon::inline v0 {

namespace detail {

// The states of a sum over all rows that this rank has.
template <class P>
struct total_placement;
template <class... Ons>
struct total_placement<placement<Ons...>> {
  template <class S>
  using held = std::conditional_t<cuts<S, vocabulary>, replicated,
                                  std::conditional_t<is_sharded<S>, partial, S>>;
  using type = placement<on<typename Ons::axis, held<typename Ons::held>>...>;
};

}  // namespace detail

/// Cross-entropy of logits [batch, sequence, vocabulary] with targets [batch, sequence], summed
/// over the rows of this rank in fp64. Where an axis cuts the vocabulary, the maximum, the sum of
/// exponentials and the target's logit are made whole by the moves declared here: three numbers a
/// row, in the wide element. A target below 0 is not counted: its loss and gradient are exactly 0.
///
/// The result is partial where rows are cut: divide by the global number of counted tokens.
struct cross_entropy {
  template <class Logits>
  class bound : public without_parameters {
    static_assert(is_tensor<Logits>, "cross_entropy: the logits are several tensors; give one");
    using E = typename Logits::element_type;
    using P = typename Logits::placement_type;
    using W = wide<E>;
    static_assert(std::is_same_v<typename Logits::dims_type, dims<batch, sequence, vocabulary>>,
                  "cross_entropy: the dims of the logits are not batch, sequence, vocabulary");
    static_assert(
        !any_partial<P>,
        "cross_entropy: a function that is not linear was given a sum that is still to be "
        "done; reduce it first");
    using rows = dims<batch, sequence>;
    using pairs = dims<statistics, batch, sequence>;
    using maximum_placed =
        typename detail::row_placement<P, partial_of<reduction::maximum>, vocabulary>::type;
    using sums_placed = typename detail::row_placement<P, partial, vocabulary>::type;
    using mesh_type = typename Logits::mesh_type;

   public:
    using targets_type =
        tensor<std::int32_t, rows,
               constant<typename detail::row_placement<P, invariant, vocabulary>::type>>;
    using total_type = tensor<fp64, dims<>, typename detail::total_placement<P>::type>;
    using forward_transfers =
        joined_transfers<typename detail::reducing_over<W, rows, maximum_placed, mesh_type>::type,
                         typename detail::reducing_over<W, pairs, sums_placed, mesh_type>::type>;
    using backward_transfers = transfers<>;

    struct saved_type {
      Logits logits;
      targets_type targets;
      decltype(detail::reduced_everywhere(std::declval<tensor<W, rows, maximum_placed>>(),
                                          {})) maximum;
      decltype(detail::reduced_everywhere(std::declval<tensor<W, pairs, sums_placed>>(), {})) sums;
    };

    explicit bound(const layer_context<mesh_type>& context) : name_(context.name) {}

    std::pair<total_type, saved_type> forward(Logits logits, targets_type targets) {
      const auto& global = logits.global_shape();
      auto& group = logits.group();
      const auto [b, s] = std::pair(global.template of<batch>(), global.template of<sequence>());
      const auto begin = logits.where().template of<vocabulary>().begin;
      const auto x = std::as_const(logits).matrix();

      tensor<W, rows, maximum_placed> local_maximum(group, {b, s});
      kernel::cross_entropy_maximum(local_maximum.values(), x);
      auto maximum = detail::reduced_everywhere(std::move(local_maximum), name_);

      tensor<W, pairs, sums_placed> local_sums(group, {2, b, s});
      const auto half = static_cast<std::size_t>(x.rows);
      const auto local = local_sums.values();
      kernel::cross_entropy_sums(part(local, 0, half), part(local, half, half), x,
                                 std::as_const(targets).values(), begin,
                                 std::as_const(maximum).values());
      auto sums = detail::reduced_everywhere(std::move(local_sums), name_);

      buffer<W> losses(x.rows);
      const std::span<const W> whole = std::as_const(sums).values();
      total_type total = total_type::zeros(group, tenon::shape<dims<>>{});
      if (!shapes_only::active()) {
        kernel::cross_entropy_loss(losses.span(), std::as_const(targets).values(),
                                   std::as_const(maximum).values(), part(whole, 0, half),
                                   part(whole, half, half));
        kernel::sum_into(total.data(), std::span<const W>(losses.span()));
      }
      return {std::move(total), saved_type{std::move(logits), std::move(targets),
                                           std::move(maximum), std::move(sums)}};
    }

    /// The gradient of scale x (sum of losses), in the place of the logits.
    gradient_of_value<Logits> backward(double scale, saved_type saved) {
      const auto rows_here = saved.logits.matrix().rows;
      const auto half = static_cast<std::size_t>(rows_here);
      const W factor = static_cast<W>(scale);
      const std::span<const W> whole = std::as_const(saved.sums).values();
      if (!saved.logits.only_holder()) saved.logits = saved.logits.clone();
      kernel::cross_entropy_backward(saved.logits.matrix(), std::as_const(saved.logits).matrix(),
                                     std::as_const(saved.targets).values(),
                                     saved.logits.where().template of<vocabulary>().begin,
                                     std::as_const(saved.maximum).values(), part(whole, 0, half),
                                     factor);
      return saved.logits.relabelled(gradient_layout(saved.logits.where()));
    }

   private:
    template <class T>
    static std::span<T> part(std::span<T> all, std::size_t begin, std::size_t count) {
      return all.empty() ? all : all.subspan(begin, count);
    }

    std::string name_;
  };
};

}  // namespace tenon::inline v0
