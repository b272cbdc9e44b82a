// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// How much is said on stderr. The environment variable TENON_LOG sets it: error, warning
/// (the default), info, debug.
enum class log_level : int { error = 0, warning = 1, info = 2, debug = 3 };

inline log_level log_level_from_environment() noexcept {
  const char* set = std::getenv("TENON_LOG");
  const std::string_view word = set == nullptr ? "" : set;
  if (word == "error") return log_level::error;
  if (word == "info") return log_level::info;
  if (word == "debug") return log_level::debug;
  return log_level::warning;
}

/// Writes one line, "tenon: level: text", to stderr when the level is asked for.
/// Thread-safety: any thread may call it; a line is written whole.
template <class... Pieces>
void log(log_level level, const Pieces&... pieces) {
  static const log_level shown = log_level_from_environment();
  if (level > shown) return;
  constexpr const char* names[] = {"error", "warning", "info", "debug"};
  const std::string line = joined("tenon: ", names[static_cast<int>(level)], ": ", pieces..., "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tenon::inline v0
