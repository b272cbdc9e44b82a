// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flags.hpp"
#include "run.hpp"

namespace pretrain_decoder {

/// What one kind of call came to on the busiest rank.
struct traffic_line {
  std::string axis;
  std::string call;
  std::string phase;
  std::int64_t calls = 0;
  std::int64_t counted = 0;    ///< bytes
  std::int64_t predicted = 0;  ///< bytes; the most there can be when they vary
  bool varies = false;         ///< the tokens decide
  double seconds = 0;
};

/// The table at the start: model, mesh, placements, predicted bytes and memory.
std::string start_table(const settings& run, const std::string& mesh, const std::string& device,
                        std::int64_t text_bytes, std::int64_t sequences, int threads,
                        const std::vector<parameter_line>& parameters,
                        const std::map<std::string, std::int64_t>& bytes_of_step,
                        std::int64_t predicted_memory);

/// The ledger at the end: predicted beside counted.
std::string ledger_table(const std::vector<traffic_line>& lines);

/// Where the time of a step goes, for --profile: medians over the steps.
std::string profile_table(const std::vector<tenon::step_result>& steps, double operations);

}  // namespace pretrain_decoder
