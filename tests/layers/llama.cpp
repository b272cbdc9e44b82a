// SPDX-License-Identifier: Apache-2.0
#include "checked.hpp"
#include "tenon/layer.hpp"
#include "tenon/model/decoder.hpp"
#include "tenon/model/placements.hpp"

BOOST_AUTO_TEST_CASE(block_in_a_whole_stream) {
  check_layer<llama_block<decoder_placements<stream_state::whole>>, stream<invariant>>(
      {.elements = 2, .dropout = 0.2});
}
BOOST_AUTO_TEST_CASE(block_in_a_split_sequence) {
  check_layer<llama_block<decoder_placements<stream_state::split_sequence>>,
              stream<sharded<sequence>>>({.elements = 2});
}
