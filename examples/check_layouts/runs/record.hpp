// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one rank has of a run, and how the ranks' records become one outcome.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenon/placement/partition.hpp"
#include "training.hpp"

namespace tenon_test {

// One rank's part of a parameter: a run of its piece.
struct piece {
  std::string name;
  std::vector<std::int64_t> extents;
  std::vector<region> regions;
  std::int64_t begin = 0;
  bool counted = false;
  bool is_copy = false;
  std::vector<double> values;
};
using pieces = std::vector<piece>;

struct rank_record {
  pieces initial, gradients, weights;
  std::vector<double> losses, balance_losses, norms;
  std::vector<std::string> faults;
  std::int64_t parameters = 0;
  std::int64_t owned = 0;
  std::int64_t state_bytes = 0;
  double operations = 0;
  run_costs costs;
  std::map<std::string, std::int64_t> traffic;
};

/// The records of all ranks, in the order of the ranks, as one outcome.
training_outcome outcome_of(std::vector<rank_record> records);

/// A record as bytes, and back: for ranks that are processes.
std::vector<std::byte> bytes_of_record(const rank_record& record);
rank_record record_of_bytes(const std::vector<std::byte>& bytes);

}  // namespace tenon_test
