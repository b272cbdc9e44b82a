// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/parallel/schedule/time.hpp"

namespace tenon::inline v0 {

/// The letter of a pass in charts: a whole backward and an input gradient are both a B.
constexpr char letter_of(pass_kind pass) noexcept {
  switch (pass) {
    case pass_kind::forward:
      return 'F';
    case pass_kind::backward:
    case pass_kind::input_gradient:
      return 'B';
    case pass_kind::weight_gradient:
      return 'W';
  }
  return ' ';
}

/// A schedule as lines of text, one a rank, time from left to right, for the times that
/// `time_schedule` gave this table:
///
///   rank 0 | F0  F1  .   .   B0- B1-
///   rank 1 | .   F0  B0- F1  B1-
///
/// F3 is the forward of microbatch 3, F3.1 that of its chunk 1; the dashes are the rest of a pass's
/// time, a dot is a unit of waiting.
inline std::string chart_text(const schedule_table& table, const schedule_times& times) {
  const auto label = [&](const schedule_entry& entry) {
    std::string text = letter_of(entry.pass) + std::to_string(entry.microbatch);
    if (table.sizes.chunks > 1) text += "." + std::to_string(entry.chunk);
    return text;
  };
  const auto largest = [](std::int64_t size) { return static_cast<std::int32_t>(size - 1); };
  const std::size_t unit =
      label({pass_kind::forward, largest(table.sizes.microbatches), largest(table.sizes.chunks)})
          .size() +
      1;
  const std::size_t digits = std::to_string(table.sizes.stages - 1).size();
  std::string waiting = ".";
  waiting.resize(unit, ' ');

  std::string text;
  for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
    const std::string number = std::to_string(rank);
    text += "rank " + std::string(digits - number.size(), ' ') + number + " | ";
    std::int64_t now = 0;
    const auto wait_until = [&](std::int64_t time) {
      for (; now < time; ++now) text += waiting;
    };
    for (std::size_t i = 0; i < table.ranks[rank].size(); ++i) {
      wait_until(times.begins[rank][i]);
      const std::int64_t cost = times.costs.of(table.ranks[rank][i].pass);
      std::string pass = label(table.ranks[rank][i]);
      pass.resize(static_cast<std::size_t>(cost) * unit - 1, cost > 1 ? '-' : ' ');
      text += pass + " ";
      now += cost;
    }
    wait_until(times.total);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace tenon::inline v0
