// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "tenon/base/host_device.hpp"
#include "tenon/base/text.hpp"

namespace tenon::inline v0 {

/// Four random words for one counter and key: Philox4x32 with ten rounds.
/// Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as
/// 1, 2, 3, SC11.
TENON_BOTH constexpr std::array<std::uint32_t, 4> philox(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// A stream of random numbers in which every number is a function of (seed, name, step, index):
/// any rank may ask for any of them, and all layouts see the same ones.
/// Thread-safety: a value without state; all members may be called at once.
struct random_stream {
  std::uint64_t key = 0;
  std::uint64_t step = 0;

  random_stream() = default;
  constexpr random_stream(std::uint64_t seed, std::string_view name,
                          std::uint64_t at_step = 0) noexcept
      : key(hash_of(name, seed * 0x9E3779B97F4A7C15ULL + 0xcbf29ce484222325ULL)), step(at_step) {}

  /// Four words of 32 bits for the global index `index`.
  TENON_BOTH constexpr std::array<std::uint32_t, 4> words(std::int64_t index) const noexcept {
    const auto i = static_cast<std::uint64_t>(index);
    return philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                   static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)},
                  {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
  }

  /// 64 random bits for the global index.
  TENON_BOTH constexpr std::uint64_t bits(std::int64_t index) const noexcept {
    const auto w = words(index);
    return (std::uint64_t{w[1]} << 32) | w[0];
  }

  /// Uniform in [0, 1), 24 bits: exact in fp32 as in fp64.
  TENON_BOTH constexpr float uniform(std::int64_t index) const noexcept {
    return static_cast<float>(words(index)[0] >> 8) * 0x1p-24F;
  }

  /// Normal with mean 0 and deviation 1 (Box and Muller, 1958), always computed in fp64. The
  /// functions called are those of the C library, so one binary gives the same bits everywhere.
  double normal(std::int64_t index) const noexcept {
    const auto w = words(index);
    const double u = (static_cast<double>((std::uint64_t{w[1]} << 32) | w[0]) + 1.0) * 0x1p-64;
    const double v = static_cast<double>((std::uint64_t{w[3]} << 32) | w[2]) * 0x1p-64;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }
};

/// A permutation of 0 .. size-1 that is a function of its key alone: position -> image in constant
/// time and without memory, by a six-round Feistel network on the next even number of bits and
/// cycle walking.
/// Source: J. Black, P. Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002.
/// Thread-safety: a value without state.
class permutation {
 public:
  constexpr permutation(std::int64_t size, random_stream stream) noexcept
      : size_(size), stream_(stream) {
    while ((std::int64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
  }

  constexpr std::int64_t operator()(std::int64_t position) const noexcept {
    if (size_ < 2) return position;
    do position = once(position);
    while (position >= size_);
    return position;
  }

 private:
  constexpr std::int64_t once(std::int64_t position) const noexcept {
    const std::int64_t mask = (std::int64_t{1} << half_bits_) - 1;
    std::int64_t left = position >> half_bits_;
    std::int64_t right = position & mask;
    for (int round = 0; round < 6; ++round) {
      const auto mixed =
          static_cast<std::int64_t>(stream_.bits((static_cast<std::int64_t>(round) << 56) ^ right) &
                                    static_cast<std::uint64_t>(mask));
      const std::int64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  std::int64_t size_;
  random_stream stream_;
  int half_bits_ = 1;
};

}  // namespace tenon::inline v0
