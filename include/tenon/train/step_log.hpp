// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// What is said about a step, in the log and on the progress line.
struct step_record {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< nats per token, over all tokens of the step
  double gradient_norm = 0;
  std::int64_t tokens = 0;  ///< of all ranks
  double step_seconds = 0;
  double tokens_per_second = 0;
  double collective_seconds = 0;
  std::vector<std::pair<std::string, std::int64_t>> bytes{};  ///< axis -> of the busiest rank

  friend bool operator==(const step_record&, const step_record&) = default;
};

namespace detail {

/// The shortest digits that read back as the same double; a number that is not finite is null,
/// since JSON has no word for it.
inline std::string json_of(double number) {
  if (!std::isfinite(number)) return "null";
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, number);
  return std::string(digits, written.ptr);
}

inline std::string json_of(std::string_view text) {
  constexpr char hexadecimal[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (code < 0x20) {
      quoted += {'\\', 'u', '0', '0', hexadecimal[code >> 4], hexadecimal[code & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace detail

/// One JSON object, in one line without its end: the fields of the record under their own names,
/// `bytes` an object of axes. Doubles have all their digits; NaN and infinity are null.
inline std::string json_of(const step_record& record) {
  std::string line = joined(
      "{\"step\":", record.step, ",\"loss\":", detail::json_of(record.loss),
      ",\"gradient_norm\":", detail::json_of(record.gradient_norm), ",\"tokens\":", record.tokens,
      ",\"step_seconds\":", detail::json_of(record.step_seconds),
      ",\"tokens_per_second\":", detail::json_of(record.tokens_per_second),
      ",\"collective_seconds\":", detail::json_of(record.collective_seconds), ",\"bytes\":{");
  for (std::size_t i = 0; i < record.bytes.size(); ++i) {
    line += joined(i == 0 ? "" : ",", detail::json_of(std::string_view(record.bytes[i].first)), ":",
                   record.bytes[i].second);
  }
  return line + "}}";
}

/// The file of `--log FILE`: JSON lines, one object a step and nothing else. Every line is handed
/// to the system whole, so a run that dies leaves whole lines.
/// Thread-safety: none; one rank writes, from one thread.
class step_log {
 public:
  /// No file: `write` does nothing.
  step_log() = default;

  /// Makes the file. Throws bad_request when it exists already or cannot be made.
  explicit step_log(const std::string& path) : path_(path) {
    file_ = std::fopen(path.c_str(), "wbx");  // x: the file must be new
    const int why = errno;
    require(file_ != nullptr || why != EEXIST, "--log ", path,
            " exists already; a log is never written over; type another name, or remove the file");
    require(file_ != nullptr, "--log ", path, " cannot be written (", std::strerror(why),
            "); it is a new file in a folder that exists; type --log with such a path");
  }
  step_log(step_log&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, nullptr)) {}
  step_log& operator=(step_log&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~step_log() {
    if (file_ != nullptr) std::fclose(file_);
  }

  /// Adds the line of a step. Throws when it cannot be written, as on a full disk.
  void write(const step_record& record) {
    if (file_ == nullptr) return;
    const std::string line = json_of(record) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
      fail(errno, record.step);
    }
  }

 private:
  [[noreturn]] void fail(int why, std::int64_t step) const {
    throw error(error_kind::failed,
                joined("--log ", path_, " cannot be written at step ", step, " (",
                       std::strerror(why), "); make room for it, or type --log with another path"));
  }

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace tenon::inline v0
