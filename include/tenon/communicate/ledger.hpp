// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon::inline v0 {

/// What the calls of one row of a ledger came to, on this rank.
struct ledger_row {
  std::int64_t calls = 0;
  std::int64_t elements = 0;  ///< that must cross, by the rule of `bytes_crossing`
  std::int64_t bytes = 0;     ///< that must cross
  double seconds = 0;         ///< spent by the rank in starting and waiting
};

/// The key of a row: the axis ("data"), the collective ("all_reduce"), the phase ("gradients").
struct ledger_key {
  std::string axis;
  std::string call;
  std::string phase;
};

/// The calls of one rank, always counted: by axis, collective and phase. It also knows the step and
/// the phase that the rank is in.
/// Thread-safety: none; a ledger belongs to one rank's thread.
class ledger {
 public:
  ledger() = default;
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  std::int64_t step() const noexcept { return step_; }
  void set_step(std::int64_t step) noexcept { step_ = step; }

  std::string_view phase() const noexcept { return phases_[phase_]; }
  /// The present phase among those that there were, from 0.
  std::size_t phase_number() const noexcept { return phase_; }
  void set_phase(std::string_view phase) {
    for (phase_ = 0; phase_ < phases_.size(); ++phase_) {
      if (phases_[phase_] == phase) return;
    }
    phases_.emplace_back(phase);
  }

  /// The row of a call in the present phase; the reference stays valid as long as the ledger.
  ledger_row& row(std::string_view axis, std::string_view call) {
    const auto found = rows_.find(std::tuple(axis, call, phase()));
    if (found != rows_.end()) return found->second;
    return rows_[ledger_key{std::string(axis), std::string(call), std::string(phase())}];
  }

  /// Orders keys by axis, call and phase, and looks them up without making strings.
  struct key_order {
    using is_transparent = void;
    using view = std::tuple<std::string_view, std::string_view, std::string_view>;
    static view of(const ledger_key& key) noexcept { return {key.axis, key.call, key.phase}; }
    static const view& of(const view& key) noexcept { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return of(a) < of(b);
    }
  };
  using table = std::map<ledger_key, ledger_row, key_order>;
  const table& rows() const noexcept { return rows_; }

  /// Bytes by axis since the beginning.
  std::map<std::string, std::int64_t> bytes_by_axis() const {
    std::map<std::string, std::int64_t> sums;
    for (const auto& [key, row] : rows_) sums[key.axis] += row.bytes;
    return sums;
  }
  /// Seconds in calls since the beginning.
  double seconds() const noexcept {
    double sum = 0;
    for (const auto& [key, row] : rows_) sum += row.seconds;
    return sum;
  }

  /// Begins a new count for `bytes_since_mark` and `seconds_since_mark`: once a step.
  void mark() {
    marked_bytes_ = bytes_by_axis();
    marked_seconds_ = seconds();
  }
  std::map<std::string, std::int64_t> bytes_since_mark() const {
    auto sums = bytes_by_axis();
    for (auto& [axis, bytes] : sums) {
      const auto before = marked_bytes_.find(axis);
      if (before != marked_bytes_.end()) bytes -= before->second;
    }
    return sums;
  }
  double seconds_since_mark() const noexcept { return seconds() - marked_seconds_; }

  /// All rows at zero; the rows stay.
  void restart() {
    for (auto& [key, row] : rows_) row = {};
    mark();
  }

 private:
  table rows_;
  std::map<std::string, std::int64_t> marked_bytes_;
  double marked_seconds_ = 0;
  std::vector<std::string> phases_{"other"};
  std::size_t phase_ = 0;
  std::int64_t step_ = 0;
};

/// Sets the phase while it lives: `phase_scope inside(book, "backward");`
class phase_scope {
 public:
  phase_scope(ledger& book, std::string_view phase) : book_(book), before_(book.phase()) {
    book.set_phase(phase);
  }
  ~phase_scope() { book_.set_phase(before_); }
  phase_scope(const phase_scope&) = delete;
  phase_scope& operator=(const phase_scope&) = delete;

 private:
  ledger& book_;
  std::string before_;
};

}  // namespace tenon::inline v0
