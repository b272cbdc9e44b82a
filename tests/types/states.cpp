// SPDX-License-Identifier: Apache-2.0
// The four states, their gradients and their names. This file only has to compile.
#include <concepts>
#include <type_traits>

#include "every_state.hpp"
#include "tenon/placement.hpp"

namespace {

using namespace tenon;
using namespace types;

// Each state fixes the state of its gradient.
static_assert(std::same_as<gradient_state<sharded<batch>>, sharded<batch>>);
static_assert(std::same_as<gradient_state<sharded<rack>>, sharded<rack>>);
static_assert(std::same_as<gradient_state<partial>, replicated>);
static_assert(std::same_as<gradient_state<replicated>, partial>);
static_assert(std::same_as<gradient_state<invariant>, invariant>);

// The gradient of the gradient is in the state again, for every state that has one.
static_assert(for_every<states_with_gradient>([]<class S>() {
  return std::same_as<gradient_state<gradient_state<S>>, S>;
}));

// A maximum and a log_sum_exp have no gradient.
static_assert(std::is_void_v<gradient_state<partial_of<reduction::maximum>>>);
static_assert(std::is_void_v<gradient_state<partial_of<reduction::log_sum_exp>>>);

// All of them are states, and nothing else is.
static_assert(for_every<all_states>([]<class S>() { return state<S>; }));
static_assert(!state<void> && !state<batch> && !state<int> && !state<axis::data>);

// A user's dim and axis are any structs with their names.
static_assert(tensor_dim<rack> && !tensor_dim<int>);
static_assert(mesh_axis<shelf> && !mesh_axis<rack>);

// A placement: its mesh, the state on an axis, another state there, the gradient.
using tokens = placement<on<axis::data, sharded<batch>>, on<axis::context, replicated>,
                         on<axis::tensor, partial>>;
static_assert(std::same_as<tokens::mesh_type, mesh<axis::data, axis::context, axis::tensor>>);
static_assert(std::same_as<state_on_t<tokens, axis::data>, sharded<batch>>);
static_assert(std::same_as<state_on_t<tokens, axis::tensor>, partial>);
static_assert(tokens::names<axis::context> && !tokens::names<axis::expert>);
static_assert(std::same_as<with_state<tokens, axis::tensor, sharded<sequence>>,
                           placement<on<axis::data, sharded<batch>>, on<axis::context, replicated>,
                                     on<axis::tensor, sharded<sequence>>>>);
static_assert(std::same_as<gradient_placement<tokens>,
                           placement<on<axis::data, sharded<batch>>, on<axis::context, partial>,
                                     on<axis::tensor, replicated>>>);
static_assert(std::same_as<gradient_placement<gradient_placement<tokens>>, tokens>);
static_assert(any_partial<tokens> && !no_sum_to_be_done<tokens>);
static_assert(any_cut_of<tokens, batch> && !any_cut_of<tokens, sequence>);
static_assert(cuts_only<tokens, dims<batch, hidden>> && !cuts_only<tokens, dims<hidden>>);

// The mark of constants keeps the states.
static_assert(is_constant<constant<tokens>> && !is_constant<tokens>);
static_assert(std::same_as<states_of_t<constant<tokens>>, tokens>);
static_assert(std::same_as<state_on_t<constant<tokens>, axis::data>, sharded<batch>>);
static_assert(std::same_as<with_state<constant<tokens>, axis::data, invariant>,
                           constant<with_state<tokens, axis::data, invariant>>>);
static_assert(any_partial<constant<tokens>> && any_cut_of<constant<tokens>, batch>);

// An owner placement has neither sums to be done nor values that each rank uses differently.
static_assert(is_owner_placement<placement<>>);
static_assert(
    is_owner_placement<placement<on<axis::data, invariant>, on<axis::tensor, sharded<ffn>>>>);
static_assert(!is_owner_placement<placement<on<axis::data, replicated>>>);
static_assert(!is_owner_placement<placement<on<axis::data, partial>>>);
static_assert(!is_owner_placement<constant<placement<on<axis::data, invariant>>>>);

// Functions that read a whole dim, and functions that are not linear.
static_assert(whole_along<placement<on<axis::tensor, sharded<sequence>>>, hidden>);
static_assert(!whole_along<placement<on<axis::tensor, sharded<hidden>>>, hidden>);
static_assert(!whole_along<placement<on<axis::tensor, partial>>, hidden>);

// Lists of dims.
using stream = dims<batch, sequence, hidden>;
static_assert(stream::size == 3 && stream::has<sequence> && !stream::has<ffn>);
static_assert(stream::position<hidden> == 2);
static_assert(std::same_as<joined_dims_t<stream, dims<ffn>>, dims<batch, sequence, hidden, ffn>>);
static_assert(std::same_as<dims_without_t<stream, dims<hidden, ffn>>, dims<batch, sequence>>);
static_assert(std::same_as<dims_without_t<stream, stream>, dims<>>);
static_assert(dims_among<dims<hidden>, stream> && !dims_among<stream, dims<hidden>>);
static_assert(dims_among<dims<>, stream>);

// Sizes are counted in 64 bits.
static_assert(shape<dims<batch, sequence, vocabulary>>(64, 1024, 50257).elements() ==
              3'293'642'752);
static_assert(shape<stream>(5, 0, 7).elements() == 0);
static_assert(shape<dims<>>().elements() == 1);
static_assert(shape<stream>(5, 6, 7).of<sequence>() == 6);

}  // namespace
