// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"

namespace tenon::inline v0::kernel {

/// One matrix product that was computed: `batch` times C[m,n] (+)= op(A)[m,k] op(B)[k,n].
struct product_record {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  orientation a_form = orientation::as_stored;
  orientation b_form = orientation::as_stored;
  output how = output::overwrite;
  element_kind element = element_kind::fp32;
  std::int64_t batch = 1;

  /// Multiplications and additions, each counted as one.
  double operations() const noexcept {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
  friend bool operator==(const product_record&, const product_record&) = default;
};

/// While it lives, the products that this thread asks for are listed, those inside attention too:
/// a benchmark calls the same list straight through BLAS.
/// Thread-safety: it belongs to the thread that made it.
class product_log {
 public:
  product_log() noexcept : outer_(current()) { current() = this; }
  ~product_log() { current() = outer_; }
  product_log(const product_log&) = delete;
  product_log& operator=(const product_log&) = delete;

  const std::vector<product_record>& records() const noexcept { return records_; }
  void clear() noexcept { records_.clear(); }
  void append(const product_record& record) { records_.push_back(record); }

  /// The log of this thread, or null.
  static product_log*& current() noexcept {
    thread_local product_log* log = nullptr;
    return log;
  }

 private:
  product_log* outer_;
  std::vector<product_record> records_;
};

namespace detail {
inline double& operations_of_this_rank() noexcept {
  thread_local double operations = 0;
  return operations;
}

inline std::int64_t& attention_pairs_of_this_rank() noexcept {
  thread_local std::int64_t pairs = 0;
  return pairs;
}

inline void note_product(const product_record& record) {
  operations_of_this_rank() += record.operations();
  if (product_log::current() != nullptr) product_log::current()->append(record);
}
}  // namespace detail

/// Floating-point operations of all products that this thread asked for so far.
inline double product_operations() noexcept { return detail::operations_of_this_rank(); }

/// Pairs of a query and a key that it sees, over heads and sequences, in all calls of attention and
/// of its backward that this thread made so far: the work that an order of tokens must balance.
inline std::int64_t attention_pairs() noexcept { return detail::attention_pairs_of_this_rank(); }

}  // namespace tenon::inline v0::kernel
