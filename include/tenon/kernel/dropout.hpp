// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/base/check.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/base/random.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/placement/token_order.hpp"

namespace tenon::inline v0::kernel {

namespace detail {

/// The first word of `philox`, its rounds written one into the other: a loop inside of a loop would
/// keep the outer one from being vectorised.
template <int Rounds>
TENON_BOTH inline std::uint32_t first_philox_word(std::uint32_t c0, std::uint32_t c1,
                                                  std::uint32_t c2, std::uint32_t c3,
                                                  std::uint32_t k0, std::uint32_t k1) noexcept {
  const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c2;
  const std::uint32_t next = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
  if constexpr (Rounds == 1) {
    return next;
  } else {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c0;
    return first_philox_word<Rounds - 1>(
        next, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1,
        static_cast<std::uint32_t>(a), k0 + 0x9E3779B9U, k1 + 0xBB67AE85U);
  }
}

/// 24 random bits: those of `stream.uniform(index)`.
TENON_BOTH inline std::uint32_t uniform_bits(const random_stream& stream,
                                             std::int64_t index) noexcept {
  const auto i = static_cast<std::uint64_t>(index);
  return first_philox_word<10>(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                               static_cast<std::uint32_t>(stream.step),
                               static_cast<std::uint32_t>(stream.step >> 32),
                               static_cast<std::uint32_t>(stream.key),
                               static_cast<std::uint32_t>(stream.key >> 32)) >>
         8;
}

}  // namespace detail

/// Where a local matrix [batch * sequence_local, columns] stands in the global tensor
/// [batch, sequence_global, columns_global]. Its numbers depend on no layout.
struct global_index {
  std::int64_t batch_begin = 0;
  position_runs positions{};        ///< of the rows of a sequence that are here
  std::int64_t sequence_local = 1;  ///< rows of one sequence that are here
  std::int64_t sequence_global = 1;
  std::int64_t column_begin = 0;
  std::int64_t columns_global = 1;

  /// The global number of the element (row, 0).
  TENON_BOTH constexpr std::int64_t row_start(std::int64_t row) const noexcept {
    const std::int64_t b = batch_begin + row / sequence_local;
    const std::int64_t s = positions.at(row % sequence_local);
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
      const bool kept = detail::uniform_bits(stream, start + column) >= least;
      return detail::chosen(kept, value * static_cast<V>(factor), V{0});
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
