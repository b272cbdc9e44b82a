// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/attention.hpp"

#include "checked.hpp"
#include "tenon/layer/rotary_positions.hpp"

namespace {

template <class Heads, class KvHeads>
using query_key_value =
    std::tuple<tokens_of<Heads, heads, head_width>, tokens_of<KvHeads, kv_heads, head_width>,
               tokens_of<KvHeads, kv_heads, head_width>>;
using cut = query_key_value<sharded<heads>, sharded<kv_heads>>;
using whole = query_key_value<invariant, invariant>;

}  // namespace

BOOST_AUTO_TEST_CASE(cut_heads_that_share_kv_heads) { check_layer<causal_attention, cut>(); }
BOOST_AUTO_TEST_CASE(whole_heads) { check_layer<causal_attention, whole>(); }
BOOST_AUTO_TEST_CASE(dropped_probabilities) {
  check_layer<causal_attention, cut>({.dropout = 0.3});
}
BOOST_AUTO_TEST_CASE(turned_by_position) { check_layer<rotary_positions, cut>(); }
