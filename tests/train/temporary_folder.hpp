// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

/// A fresh folder that is removed with everything in it at the end.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon_test_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the test");
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path(const std::string& name) const { return path_ + "/" + name; }

  /// Writes a file, and the folders above it.
  std::string file(const std::string& name, std::string_view content) const {
    const std::filesystem::path whole = path(name);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << content;
    return whole.string();
  }

 private:
  std::string path_;
};
