// SPDX-License-Identifier: Apache-2.0
// The code of docs/why/placements.md, in its order. What the page says, the compiler checks.
#include <concepts>

#include "tenon/placement.hpp"

namespace {

using namespace tenon;

// The four states.
using stream = dims<batch, sequence, hidden>;
using tokens = placement<on<axis::data, sharded<batch>>, on<axis::tensor, replicated>>;

// Gradients.
static_assert(std::same_as<gradient_state<partial>, replicated>);
static_assert(std::same_as<gradient_state<replicated>, partial>);
static_assert(std::same_as<gradient_state<invariant>, invariant>);
static_assert(std::same_as<gradient_state<sharded<hidden>>, sharded<hidden>>);

// Moves.
static_assert(std::same_as<move<axis::tensor, partial, sharded<sequence>>,
                           reduce_scatter<axis::tensor, sequence>>);
static_assert(std::same_as<backward_move<axis::tensor, partial, sharded<sequence>>,
                           all_gather<axis::tensor, sequence>>);
static_assert(!has_move<axis::tensor, partial_of<reduction::maximum>, sharded<sequence>>);

// The contraction rule: a feed-forward layer.
using first_weight = placement<on<axis::data, replicated>, on<axis::tensor, sharded<ffn>>>;
using inner = dims<batch, sequence, ffn>;
using widened = product_placement_t<stream, tokens, dims<hidden, ffn>, first_weight, inner>;
static_assert(std::same_as<
              widened, placement<on<axis::data, sharded<batch>>, on<axis::tensor, sharded<ffn>>>>);
using second_weight = first_weight;
using narrowed = product_placement_t<inner, widened, dims<ffn, hidden>, second_weight, stream>;
static_assert(
    std::same_as<narrowed, placement<on<axis::data, sharded<batch>>, on<axis::tensor, partial>>>);

// Sums, and what is not linear.
using bias = partner_placement<tokens, dims<hidden>>;
static_assert(
    std::same_as<bias, placement<on<axis::data, replicated>, on<axis::tensor, replicated>>>);
static_assert(std::same_as<gradient_placement<bias>,
                           placement<on<axis::data, partial>, on<axis::tensor, partial>>>);
static_assert(!can_add<stream, narrowed, dims<hidden>, bias>);
static_assert(!no_sum_to_be_done<narrowed>);
static_assert(whole_along<tokens, hidden> && !whole_along<widened, ffn>);

// Owner and use.
using owned = placement<on<axis::data, invariant>, on<axis::tensor, sharded<ffn>>>;
static_assert(is_owner_placement<owned> && !is_owner_placement<first_weight>);
static_assert(std::same_as<move<axis::data, invariant, replicated>, nothing>);
static_assert(
    std::same_as<backward_move<axis::data, invariant, replicated>, all_reduce<axis::data>>);

// Bytes.
using finish = transfer<move<axis::tensor, partial, sharded<sequence>>, bf16, stream, narrowed>;
constexpr mesh<axis::data, axis::tensor> grid({2, 4});
static_assert(busiest_bytes<finish>({16, 1024, 4096}, grid) == 8LL * 768 * 4096 * 2);
constexpr layout<stream, tokens> uneven({5, 1024, 4096}, grid);
static_assert(uneven.extent<batch>() == 3 && uneven.seen_from(7).extent<batch>() == 2);

}  // namespace
