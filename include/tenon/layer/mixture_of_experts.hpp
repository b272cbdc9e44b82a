// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/layer/concept.hpp"
#include "tenon/layer/experts/dispatch.hpp"
#include "tenon/layer/experts/networks.hpp"
#include "tenon/layer/experts/router.hpp"
#include "tenon/layer/experts/traffic.hpp"

namespace tenon::inline v0 {

namespace detail {

// The axis that carries `experts`; the first one of the mesh when none does.
template <class Assignment, class Mesh>
struct find_expert_axis;
template <class Assignment, class... Axes>
struct find_expert_axis<Assignment, mesh<Axes...>> {
  template <class A>
  static constexpr bool carries =
      std::is_same_v<carried_dim<A, Assignment, dims<experts>>, experts>;
  static constexpr int count = (0 + ... + (carries<Axes> ? 1 : 0));
  template <class A>
  using one = std::conditional_t<carries<A>, type_list<A>, type_list<>>;
  template <class... Lists>
  struct first;
  template <class... Rest>
  struct first<type_list<>, Rest...> : first<Rest...> {};
  template <class A, class... Rest>
  struct first<type_list<A>, Rest...> {
    using type = A;
  };
  using type = typename first<one<Axes>..., type_list<Axes>...>::type;
};

// True where the axes that cut the experts' ffn hold x in a state that lets them.
template <class P, class Assignment>
inline constexpr bool ffn_may_be_cut = false;
template <class... Ons, class Assignment>
inline constexpr bool ffn_may_be_cut<placement<Ons...>, Assignment> =
    ((!std::is_same_v<carried_dim<typename Ons::axis, Assignment, dims<ffn>>, ffn> ||
      std::is_same_v<typename Ons::held, replicated>)&&...);

// The states of the experts' output beside tokens placed by `P`: a sum still to be done where the
// experts' ffn is cut.
template <class P, class Assignment>
struct expert_output_placement;
template <class... Ons, class Assignment>
struct expert_output_placement<placement<Ons...>, Assignment> {
  template <class A, class S>
  using held =
      std::conditional_t<std::is_same_v<carried_dim<A, Assignment, dims<ffn>>, ffn>, partial, S>;
  using type = placement<on<typename Ons::axis, held<typename Ons::axis, typename Ons::held>>...>;
};

}  // namespace detail

/// Experts instead of a feed-forward layer: a router chooses `experts_per_token` of them for each
/// token; y = sum over the chosen of share x expert(x). No token is dropped.
///
///   tokens' ranks      router -> counts, all-gather -> rows, all-to-all ->
///   experts' ranks        grouped products, one group an expert
///   tokens' ranks      <- rows, all-to-all <-      y: sum by shares
///
/// `Assignment` says which axis carries `experts` (it cuts tokens outside this layer) and which
/// cuts the experts' `ffn` (x is replicated there, and y partial). Experts are cut in balanced
/// pieces, uneven or empty ones too. Every sum over the choices of a token is in the order of the
/// choices, whatever ranks they came from.
/// Source: W. Fedus, B. Zoph, N. Shazeer, Switch transformers, 2021 (router, balancing loss);
/// T. Gale and others, MegaBlocks, 2022 (without dropping).
template <expert_form Form, class Assignment>
struct mixture_of_experts {
  template <class In>
  class bound {
    static_assert(is_tensor<In>, "mixture_of_experts: the input is several tensors; give one");
    using E = typename In::element_type;
    using D = typename In::dims_type;
    using P = typename In::placement_type;
    using mesh_type = typename In::mesh_type;
    static_assert(std::is_same_v<D, dims<batch, sequence, hidden>>,
                  "mixture_of_experts: the dims of the input are not batch, sequence, hidden");
    static_assert(!any_partial<P>,
                  "mixture_of_experts: a function that is not linear was given a sum that is still "
                  "to be done; reduce it first");
    static_assert(!any_cut_of<P, hidden>,
                  "mixture_of_experts: the hidden dim is cut by an axis, and the router reads the "
                  "whole of it; move that axis to another dim first");
    using found = detail::find_expert_axis<Assignment, mesh_type>;
    static_assert(found::count == 1,
                  "mixture_of_experts: not one axis of the mesh carries the experts; give "
                  "carry<axis::expert, experts> in the assignment, and only once");
    using expert_axis = typename found::type;
    static_assert(found::count != 1 || is_sharded<state_on_t<P, expert_axis>>,
                  "mixture_of_experts: the axis that carries the experts does not cut the tokens, "
                  "so all its ranks would send the same; cut the batch or the sequence on it");
    static_assert(detail::ffn_may_be_cut<P, Assignment>,
                  "mixture_of_experts: an axis that cuts the experts' ffn does not hold the input "
                  "replicated; move the input there first: redistributed<axis, replicated>");
    using weight_use = with_state<weight_placement<P, dims<hidden>, dims<ffn>, Assignment>,
                                  expert_axis, sharded<experts>>;
    using router_type = expert_router<In>;
    using networks_type = expert_networks<Form, E, weight_use>;
    using W = wide<E>;

   public:
    using output_type = tensor<E, D, typename detail::expert_output_placement<P, Assignment>::type>;
    struct saved_type {
      In x;
      typename router_type::choices choices;
      expert_dispatch way;
      typename networks_type::saved_type networks;
      buffer<E> answers;  // [slots, hidden], in the order sent
    };
    using forward_transfers = transfers<detail::expert_counts_transfer<expert_axis>,
                                        detail::expert_rows_transfer<expert_axis, E, D, P, true>,
                                        detail::expert_rows_transfer<expert_axis, E, D, P, false>>;
    using backward_transfers =
        joined_transfers<transfers<detail::expert_rows_transfer<expert_axis, E, D, P, true>,
                                   detail::expert_rows_transfer<expert_axis, E, D, P, false>>,
                         typename router_type::backward_transfers>;

    explicit bound(const layer_context<mesh_type>& context)
        : name_(context.name), router_(context.child("router")), networks_(context) {}

    std::pair<output_type, saved_type> forward(In x) {
      const auto rows = x.matrix();
      auto choices = router_.forward(x);
      const std::int64_t k = choices.experts_per_token;
      auto& line = x.group().template on<expert_axis>();
      std::vector<std::int64_t> slots;
      if (shapes_only::active()) slots = detail::tokens_along<expert_axis>(x.where());
      for (std::int64_t& tokens : slots) tokens *= k;
      expert_dispatch way(line, networks_.template experts_on<expert_axis>(), choices.experts,
                          slots, name_);
      const std::int64_t here = rows.rows * k;
      buffer<E> sent(here * rows.columns);
      kernel::gather_rows<E>(view_of(sent.data(), here, rows.columns), rows, way.slot_of_row(), k);
      auto grouped = way.to_experts(std::move(sent), rows.columns, name_);
      auto [made, kept] = networks_.forward(std::move(grouped), way.rows_of_experts());
      auto answers = way.to_tokens(std::move(made), rows.columns, name_);
      output_type y(x.group(), detail::cut_alike<D, typename output_type::placement_type>(
                                   x.global_shape(), x.where()));
      kernel::combine_rows<E>(y.matrix(), view_of(answers.data(), here, rows.columns),
                              way.row_of_slot(), choices.share_view());
      return {std::move(y), saved_type{std::move(x), std::move(choices), std::move(way),
                                       std::move(kept), std::move(answers)}};
    }

    gradient_of_value<In> backward(gradient_of_value<output_type> gradient, saved_type saved) {
      const auto dy = std::as_const(gradient).matrix();
      const std::int64_t k = saved.choices.experts_per_token;
      const std::int64_t here = dy.rows * k;
      buffer<W> d_shares(here);
      kernel::combine_rows_backward<E>(view_of(d_shares.data(), dy.rows, k),
                                       view_of(saved.answers.data(), here, dy.columns), dy,
                                       saved.way.row_of_slot(), saved.choices.share_view());
      auto grouped = saved.way.to_experts(std::move(saved.answers), dy.columns, name_);
      auto made = networks_.backward(std::move(grouped), std::move(saved.networks),
                                     saved.way.rows_of_experts());
      const auto rows = saved.way.to_tokens(std::move(made), dy.columns, name_);
      gradient_of_value<In> dx(saved.x.group(), gradient_layout(saved.x.where()));
      kernel::sum_of_slots<E>(dx.matrix(), view_of(rows.data(), here, dy.columns),
                              saved.way.row_of_slot(), k);
      router_.backward(dx, d_shares, saved.x, saved.choices);
      return dx;
    }

    template <class F>
    void for_each_parameter(F&& f) {
      router_.for_each_parameter(f);
      networks_.for_each_parameter(f);
    }

   private:
    std::string name_;
    router_type router_;
    networks_type networks_;
  };
};

}  // namespace tenon::inline v0
