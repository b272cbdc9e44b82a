// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runs/training.hpp"

namespace check_layouts {

/// One layout of one of the models, and what it is called in the table.
struct layout_request {
  tenon_test::training_request request;
  std::string name;
  double bar = 1e-10;  ///< for what is compared after step 1
};

/// The models: 8 layers, 8 heads, batch 8, sequence 32, three steps in fp64 on one rank.
tenon_test::training_request model_of(tenon::block_form form);

/// Every way to write `ranks` as a product of the extents of data, pipeline, context, expert and
/// tensor, each with options chosen so that every pair of options that go together occurs: form,
/// experts (none, in every block, in every second), schedule, shards, overlap, attention, order,
/// stream, recompute, packing, microbatch. `few` keeps as many as a short check takes.
std::vector<layout_request> all_layouts(int ranks, bool few);

}  // namespace check_layouts
