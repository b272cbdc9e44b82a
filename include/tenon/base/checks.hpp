// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>

namespace tenon::inline v0 {

/// True when the environment variable TENON_CHECK, words with commas between them, names `what`.
inline bool checks_for(std::string_view what) {
  const char* set = std::getenv("TENON_CHECK");
  std::string_view rest = set == nullptr ? "" : set;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == what) return true;
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return false;
}

}  // namespace tenon::inline v0
