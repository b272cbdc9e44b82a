// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/test/unit_test.hpp>
#include <utility>
#include <vector>

#include "training.hpp"

namespace tenon_test {

/// Trains on every mesh of the list and on one rank, and compares by the bars of fp64.
inline void check_parallel_equals_serial(training_request request,
                                         const std::vector<std::pair<int, int>>& meshes) {
  request.data = 1;
  request.tensor = 1;
  request.split_sequence = false;
  const training_outcome serial = run_training(request);
  for (const auto& fault : serial.faults) BOOST_ERROR("one rank: " << fault);
  for (const auto& [data, tensor] : meshes) {
    for (const bool split : {false, true}) {
      request.data = data;
      request.tensor = tensor;
      request.split_sequence = split;
      BOOST_TEST_CONTEXT(text_of(request)) {
        const training_outcome parallel = run_training(request);
        for (const auto& fault : parallel.faults) BOOST_ERROR(fault);
        BOOST_TEST(missed_bars(compare(serial, parallel)) == "");
      }
    }
  }
}

}  // namespace tenon_test
