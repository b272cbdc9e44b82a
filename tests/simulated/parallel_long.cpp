// SPDX-License-Identifier: Apache-2.0
// All meshes data x tensor of up to 8 ranks, both forms; see parallel_equals_serial.cpp.
#include "parallel.hpp"

using namespace tenon_test;

BOOST_AUTO_TEST_CASE(every_mesh_of_up_to_8_ranks) {
  std::vector<std::pair<int, int>> meshes;
  for (int data = 1; data <= 8; ++data) {
    for (int tensor = 1; data * tensor <= 8; ++tensor) meshes.emplace_back(data, tensor);
  }
  BOOST_TEST(meshes.size() == 20u);
  for (const block_form form : {block_form::gpt2, block_form::llama}) {
    for (const std::int64_t batch : {7, 8}) {
      training_request request;
      request.shape = small_shape(form);
      request.batch = batch;
      request.microbatch = 3;
      check_parallel_equals_serial(request, meshes);
    }
  }
}
