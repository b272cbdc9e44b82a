// SPDX-License-Identifier: Apache-2.0
// The sum rule, and the states of what stands beside a tensor. This file only has to compile.
#include <concepts>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

template <class S>
using cut = placement<on<axis::tensor, S>>;
using stream = dims<batch, sequence, hidden>;
using bias = dims<hidden>;
using stream_states =
    type_list<partial, replicated, invariant, sharded<batch>, sharded<sequence>, sharded<hidden>>;
using bias_states = type_list<partial, replicated, invariant, sharded<hidden>>;

template <class S, class T>
using sum_state = state_on_t<sum_placement_t<stream, cut<S>, stream, cut<T>>, axis::tensor>;
template <class S, class T>
using biased_state = state_on_t<sum_placement_t<stream, cut<S>, bias, cut<T>>, axis::tensor>;

// A residual: both terms in the same state, and no other pair.
static_assert(for_every_pair<stream_states, stream_states>([]<class S, class T>() {
  if constexpr (can_add<stream, cut<S>, stream, cut<T>>) {
    return std::same_as<S, T> && std::same_as<sum_state<S, T>, S>;
  } else {
    return !std::same_as<S, T>;
  }
}));

// A bias is in the same state too, or replicated where the dim that is cut is not its own.
static_assert(for_every_pair<stream_states, bias_states>([]<class S, class T>() {
  constexpr bool lacks_the_dim =
      std::same_as<S, sharded<batch>> || std::same_as<S, sharded<sequence>>;
  constexpr bool legal = std::same_as<S, T> || (lacks_the_dim && std::same_as<T, replicated>);
  if constexpr (can_add<stream, cut<S>, bias, cut<T>>) {
    return legal && std::same_as<biased_state<S, T>, S>;
  } else {
    return !legal;
  }
}));

// Exactly that state is the partner's, so its gradient is known: a bias under tokens that are cut
// has a partial gradient, one beside an invariant tensor an invariant gradient.
static_assert(for_every<stream_states>([]<class S>() {
  return can_add<stream, cut<S>, bias, cut<partner_state<S, bias>>>;
}));
static_assert(for_every<stream_states>([]<class S>() {
  return for_every<bias_states>([]<class T>() {
    return can_add<stream, cut<S>, bias, cut<T>> == std::same_as<T, partner_state<S, bias>>;
  });
}));
static_assert(std::same_as<gradient_state<partner_state<sharded<sequence>, bias>>, partial>);
static_assert(std::same_as<gradient_state<partner_state<sharded<batch>, bias>>, partial>);
static_assert(std::same_as<gradient_state<partner_state<invariant, bias>>, invariant>);
static_assert(std::same_as<gradient_state<partner_state<sharded<hidden>, bias>>, sharded<hidden>>);
static_assert(
    std::same_as<
        partner_placement<
            placement<on<axis::data, sharded<batch>>, on<axis::tensor, sharded<hidden>>>, bias>,
        placement<on<axis::data, replicated>, on<axis::tensor, sharded<hidden>>>>);

// The terms of a sum of maxima are not added.
static_assert(for_every<states_without_gradient>([]<class S>() {
  return !can_add<stream, cut<S>, stream, cut<S>> && !can_add<stream, cut<S>, stream, cut<partial>>;
}));

// A constant (a table of positions) serves beside every state but a sum that is still to be done.
using table = dims<sequence, hidden>;
template <class S, class T>
concept accepted_constant = can_add<stream, cut<S>, table, constant<cut<T>>>;
static_assert(accepted_constant<sharded<batch>, invariant>);
static_assert(accepted_constant<sharded<batch>, replicated>);
static_assert(accepted_constant<invariant, replicated>);
static_assert(accepted_constant<invariant, invariant>);
static_assert(accepted_constant<replicated, invariant>);
static_assert(accepted_constant<sharded<sequence>, sharded<sequence>>);
static_assert(!accepted_constant<sharded<sequence>, replicated>);
static_assert(!accepted_constant<sharded<sequence>, sharded<hidden>>);
static_assert(!accepted_constant<replicated, sharded<hidden>>);
static_assert(!accepted_constant<partial, replicated> && !accepted_constant<partial, invariant>);
static_assert(!accepted_constant<partial, partial>);
static_assert(
    std::same_as<sum_placement_t<stream, cut<sharded<batch>>, table, constant<cut<invariant>>>,
                 cut<sharded<batch>>>);
// Two constants give a constant.
static_assert(is_constant<
              sum_placement_t<stream, constant<cut<invariant>>, table, constant<cut<replicated>>>>);

// Different meshes, a term with a dim of its own, a cut dim that is not there.
static_assert(!can_add<stream, cut<invariant>, bias, placement<on<axis::data, invariant>>>);
static_assert(!can_add<bias, cut<invariant>, stream, cut<invariant>>);
static_assert(!can_add<stream, cut<sharded<ffn>>, stream, cut<sharded<ffn>>>);

}  // namespace
