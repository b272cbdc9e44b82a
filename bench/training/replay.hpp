// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tenon/kernel/product_log.hpp"

namespace bench {

/// The products of one step called straight through CBLAS, on random values: same sizes, same
/// transposes, same element (bf16: fp32, in which its products are computed) and as many threads.
///
/// A matrix product is called in two ways: once with the threads of OpenBLAS, and once cut in as
/// many parts as there are threads, each with OpenBLAS on one thread. What counts is the faster
/// way. The tiles of attention are many small products of one shape, one for each sequence and
/// head: a loop of calls on one thread each, shared out among the threads.
///
/// The operands are packed and used again by the next product of the same kind, so they are as warm
/// as they can be: the time is the shortest that BLAS alone would need.
/// Thread-safety: none.
class replay {
 public:
  replay(const std::vector<tenon::kernel::product_record>& records, int threads);
  ~replay();
  replay(const replay&) = delete;
  replay& operator=(const replay&) = delete;

  /// Calls the whole list once in each way; the seconds that the calls took.
  struct times {
    double threads_of_blas = 0;  ///< matrix products with the threads of OpenBLAS
    double threads_of_ours = 0;  ///< matrix products cut in parts
    double tiles = 0;            ///< of attention, the same in both ways
  };
  times seconds();

  /// One product of two square matrices with all threads; the seconds that it took.
  double square_seconds(std::int64_t size);

  /// Floating-point operations of the list.
  double operations() const;
  std::int64_t calls() const;

 private:
  struct impl;
  impl* impl_;
};

/// True when the threads of the BLAS can be set; else its own default is what it uses.
bool blas_threads_can_be_set();

}  // namespace bench
