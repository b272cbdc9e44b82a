// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/base/check.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/base/random.hpp"

namespace tenon::inline v0::kernel {

/// Where a local matrix [batch * sequence_local, columns] stands in the global tensor
/// [batch, sequence_global, columns_global]. Its numbers depend on no layout.
struct global_index {
  std::int64_t batch_begin = 0;
  std::int64_t sequence_begin = 0;
  std::int64_t sequence_local = 1;  ///< rows of one sequence that are here
  std::int64_t sequence_global = 1;
  std::int64_t column_begin = 0;
  std::int64_t columns_global = 1;

  /// The global number of the element (row, 0).
  TENON_BOTH constexpr std::int64_t row_start(std::int64_t row) const noexcept {
    const std::int64_t b = batch_begin + row / sequence_local;
    const std::int64_t s = sequence_begin + row % sequence_local;
    return (b * sequence_global + s) * columns_global + column_begin;
  }
};

/// Dropout as a function of (stream, global element): the element is kept, and divided by 1 - p,
/// when its uniform number is p or more; else it is 0. The same functor on the gradient is its
/// backward. p = 0 leaves the pipeline without it.
/// Source: N. Srivastava and others, Dropout, JMLR 2014.
struct dropout {
  float p = 0;
  random_stream stream;
  global_index where;

  void fits(std::int64_t, std::int64_t) const {
    require(p >= 0 && p < 1, "dropout: a share of ", p, " was asked for; give 0 or more, below 1");
    require(where.sequence_local > 0 || p == 0, "dropout: sequences of ", where.sequence_local,
            " rows; give 1 or more");
  }
  bool idle() const noexcept { return p == 0; }

  struct bound {
    random_stream stream;
    std::int64_t start;
    std::uint32_t least;  // the smallest 24-bit number that is kept
    double factor;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      // The same as stream.uniform(index) >= p, on integers.
      const std::uint32_t drawn = stream.words(start + column)[0] >> 8;
      return drawn >= least ? value * static_cast<V>(factor) : V{0};
    }
  };
  TENON_BOTH bound at_row(std::int64_t row) const {
    return {stream, where.row_start(row), threshold(p), 1 / (1 - static_cast<double>(p))};
  }

  /// uniform >= p is the same as its 24 bits >= this: the smallest integer that is not below
  /// p * 2^24.
  TENON_BOTH static constexpr std::uint32_t threshold(float p) noexcept {
    const float scaled = p * 0x1p24F;
    const auto below = static_cast<std::uint32_t>(scaled);
    return static_cast<float>(below) < scaled ? below + 1 : below;
  }
};

}  // namespace tenon::inline v0::kernel
