// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "tenon/base/check.hpp"
#include "tenon/base/log.hpp"
#include "tenon/base/text.hpp"

namespace tenon::inline v0 {

/// The text that a run learns from: the bytes of the files, joined by a 0 byte. Tokens are bytes.
/// Thread-safety: as a std::vector.
struct training_text {
  std::vector<std::string> files;   ///< the paths read, in the order of the bytes
  std::vector<std::uint8_t> bytes;  ///< [bytes of the files + files - 1]

  /// The bytes of the files alone, without the zeros between them.
  std::int64_t bytes_of_files() const noexcept {
    return static_cast<std::int64_t>(bytes.size()) - static_cast<std::int64_t>(files.size()) +
           (files.empty() ? 0 : 1);
  }

  /// Differs when two ranks read different texts, as two hosts may under one path.
  std::uint64_t fingerprint() const noexcept {
    return hash_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

namespace detail {

[[noreturn]] inline void refuse_text(const std::string& path, std::string_view why) {
  throw error(error_kind::bad_request,
              joined("--text ", path, " ", why,
                     "; it takes files and folders that can be read; type --text with the path of "
                     "a file or folder of text"));
}

/// The regular files of a folder and of the folders in it. A link to a folder is not followed, so
/// there are no circles; a link to a file is a file; a link to nothing is left out with a warning.
inline void add_files_of(const std::string& folder, std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::error_code failed;
  std::vector<std::string> folders;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unknown;
    const std::string path = entry->path().string();
    const fs::file_status followed = entry->status(unknown);
    if (fs::is_directory(followed)) {
      if (!fs::is_symlink(entry->symlink_status(unknown))) folders.push_back(path);
    } else if (fs::is_regular_file(followed)) {
      paths.push_back(path);
    } else {
      log(log_level::warning, "--text: ", path, " is no file that can be read; it is left out");
    }
  }
  if (failed) refuse_text(folder, joined("cannot be read (", failed.message(), ")"));
  for (const std::string& inner : folders) add_files_of(inner, paths);
}

/// The device and the number of a file on it: equal for one file under two names.
inline std::pair<std::uint64_t, std::uint64_t> identity_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    refuse_text(path, joined("cannot be read (", std::strerror(errno), ")"));
  }
  return {static_cast<std::uint64_t>(found.st_dev), static_cast<std::uint64_t>(found.st_ino)};
}

/// Appends a file's bytes.
inline void append_file(const std::string& path, std::vector<std::uint8_t>& bytes) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (file == nullptr) refuse_text(path, joined("cannot be read (", std::strerror(errno), ")"));
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + piece);
    const std::size_t got = std::fread(bytes.data() + before, 1, piece, file.get());
    bytes.resize(before + got);
    if (got < piece) break;
  }
  if (std::ferror(file.get()) != 0) {
    refuse_text(path, joined("cannot be read to its end (", std::strerror(errno), ")"));
  }
}

}  // namespace detail

/// Reads the text of `--text PATH...`. Every path is a file or a folder, which stands for all
/// regular files in it and in the folders below. All paths are sorted, byte by byte; a link to a
/// file already read, or the same file named again, is skipped; the files are joined by a 0 byte.
/// Throws bad_request with a sentence that names the path when one is missing or cannot be read,
/// and when there is no text in them.
inline training_text read_text(std::span<const std::string> paths) {
  namespace fs = std::filesystem;
  require(!paths.empty(),
          "--text is missing; it names the files or folders to learn from; type --text "
          "/usr/share/common-licenses");
  std::vector<std::string> sorted;
  for (const std::string& path : paths) {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (status.type() == fs::file_type::not_found) detail::refuse_text(path, "does not exist");
    if (failed) detail::refuse_text(path, joined("cannot be read (", failed.message(), ")"));
    if (fs::is_directory(status)) {
      detail::add_files_of(path, sorted);
    } else if (fs::is_regular_file(status)) {
      sorted.push_back(path);
    } else {
      detail::refuse_text(path, "is neither a file nor a folder");
    }
  }
  std::sort(sorted.begin(), sorted.end());

  training_text text;
  std::set<std::pair<std::uint64_t, std::uint64_t>> read;
  for (const std::string& path : sorted) {
    if (!read.insert(detail::identity_of(path)).second) continue;
    if (!text.files.empty()) text.bytes.push_back(0);
    detail::append_file(path, text.bytes);
    text.files.push_back(path);
  }
  if (text.files.empty()) detail::refuse_text(paths.front(), "holds no file");
  if (text.bytes_of_files() == 0) detail::refuse_text(paths.front(), "is empty");
  text.bytes.shrink_to_fit();
  return text;
}

}  // namespace tenon::inline v0
