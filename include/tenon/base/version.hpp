// SPDX-License-Identifier: Apache-2.0
#pragma once

// The version of the library. CMake reads the three numbers from this file, and nowhere else are
// they written.
namespace tenon::inline v0 {

struct version_numbers {
  int major_number;
  int minor_number;
  int patch_number;
};

inline constexpr version_numbers version{0, 1, 0};

}  // namespace tenon::inline v0
