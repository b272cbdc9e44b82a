// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/base/check.hpp"

namespace tenon_test {

using namespace tenon;

/// Collects what went wrong on simulated ranks: Boost.Test may not be used from many threads.
class findings {
 public:
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = what;
  }
  template <class A, class B>
  void equal(const A& a, const B& b, const std::string& what) {
    expect(a == b, joined(what, ": ", a, " is not ", b));
  }
  /// |a - b| <= limit, so that NaN is found.
  void close(double a, double b, double limit, const std::string& what) {
    const double apart = a < b ? b - a : a - b;
    expect(apart <= limit, joined(what, ": ", a, " is not ", b, " within ", limit));
  }
  /// The first thing that was wrong; empty when nothing was.
  const std::string& first() const { return first_; }

 private:
  std::mutex mutex_;
  std::string first_;
};

}  // namespace tenon_test
