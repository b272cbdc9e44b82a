// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tenon/base/check.hpp"
#include "tenon/train/step_log.hpp"

namespace tenon::inline v0 {

namespace detail {

/// A number with digits after the point, and "nan" or "inf" for what is neither.
inline std::string decimals(double number, int digits) {
  char text[400];
  const int length = std::snprintf(text, sizeof text, "%.*f", digits, number);
  return std::string(text, static_cast<std::size_t>(std::max(0, length)));
}

}  // namespace detail

/// A duration for a reader: "42 s", "3 min 05 s", "2 h 07 min", "3 d 04 h".
inline std::string human_seconds(double seconds) {
  if (!(seconds >= 0)) return "?";
  if (seconds > 1e9) return "years";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  const auto two = [](std::int64_t n) { return joined(n < 10 ? "0" : "", n); };
  if (whole < 60) return joined(whole, " s");
  if (whole < 3600) return joined(whole / 60, " min ", two(whole % 60), " s");
  if (whole < 86400) return joined(whole / 3600, " h ", two(whole % 3600 / 60), " min");
  return joined(whole / 86400, " d ", two(whole % 86400 / 3600), " h");
}

/// The progress of a run, as plain lines: step, loss, gradient norm, tokens a second, share of the
/// step in collectives, time left. A line is due for the first step, for the last, and whenever the
/// steps since the last line took `interval` seconds or more. The same on a terminal as in a file:
/// never a colour, never a line written over (under mpirun a rank cannot tell the two apart).
/// Thread-safety: none; one rank shows progress, from one thread.
class progress {
 public:
  /// `steps` in all. An interval of 0 makes a line due at every step.
  explicit progress(std::int64_t steps, double interval = 1) : steps_(steps), interval_(interval) {}

  /// Takes the record of a step into account; true when a line is due.
  bool add(const step_record& record) {
    const bool first = steps_seen_ == 0;
    ++steps_seen_;
    since_line_ += record.step_seconds;
    // The first step pays for what happens once; later ones each count a tenth.
    if (steps_seen_ <= 2) {
      seconds_per_step_ = record.step_seconds;
    } else {
      seconds_per_step_ += 0.1 * (record.step_seconds - seconds_per_step_);
    }
    const bool due = first || record.step >= steps_ || since_line_ >= interval_;
    if (due) since_line_ = 0;
    return due;
  }

  /// The seconds that the steps after `step` will take, by the latest steps.
  double seconds_left(std::int64_t step) const noexcept {
    return static_cast<double>(std::max<std::int64_t>(0, steps_ - step)) * seconds_per_step_;
  }

  /// The line of a step, with its end.
  std::string line(const step_record& record) const {
    const std::string total = std::to_string(steps_);
    std::string number = std::to_string(record.step);
    if (number.size() < total.size()) number.insert(0, total.size() - number.size(), ' ');
    const double share =
        record.step_seconds > 0 ? 100 * record.collective_seconds / record.step_seconds : 0;
    return joined("step ", number, "/", total, "  loss ", detail::decimals(record.loss, 4),
                  "  gradient norm ", detail::decimals(record.gradient_norm, 3), "  ",
                  detail::decimals(record.tokens_per_second, 0), " tokens/s  collectives ",
                  detail::decimals(share, 1), " %  left ", human_seconds(seconds_left(record.step)),
                  "\n");
  }

  /// Writes the line of a step when one is due.
  void show(std::FILE* out, const step_record& record) {
    if (!add(record)) return;
    const std::string text = line(record);
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  }

 private:
  std::int64_t steps_;
  double interval_;
  std::int64_t steps_seen_ = 0;
  double since_line_ = 0;
  double seconds_per_step_ = 0;
};

}  // namespace tenon::inline v0
