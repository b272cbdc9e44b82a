// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tenon/base/host_device.hpp"

// Elementary functions without branches or calls: a plain loop over them is vectorised at -O3
// without -ffast-math. NaN and infinity stay visible.
namespace tenon::inline v0::kernel {

namespace detail {

/// What the reduction exp(x) = 2^n exp(r), |r| <= ln(2)/2, needs to know of a float.
template <class T>
struct exp_numbers;

template <>
struct exp_numbers<float> {
  using bits = std::uint32_t;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the lowest bits.
  static constexpr float rounder = 12582912.0F;
  static constexpr float least = -105.0F;  // below it the result rounds to 0
  static constexpr float most = 90.0F;     // above it the result is infinity
  static constexpr float ln2_high = 0.693359375F;
  static constexpr float ln2_low = -2.12194440e-4F;
  static constexpr int fraction_bits = 23;
  static constexpr bits bias = 127;
  static constexpr bits shift = 200;  // even, and n + shift is positive
  static constexpr int degree = 7;
};

template <>
struct exp_numbers<double> {
  using bits = std::uint64_t;
  static constexpr double rounder = 6755399441055744.0;
  static constexpr double least = -750.0;
  static constexpr double most = 720.0;
  static constexpr double ln2_high = 0x1.62e42fee00000p-1;
  static constexpr double ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr int fraction_bits = 52;
  static constexpr bits bias = 1023;
  static constexpr bits shift = 1200;
  static constexpr int degree = 13;
};

/// One of two numbers, chosen by their bits: a conditional expression may become a jump, and a loop
/// with a jump is not vectorised.
template <class T>
TENON_BOTH inline T chosen(bool condition, T yes, T no) noexcept {
  using bits = typename exp_numbers<T>::bits;
  const bits mask = bits{0} - static_cast<bits>(condition);
  return std::bit_cast<T>((std::bit_cast<bits>(yes) & mask) | (std::bit_cast<bits>(no) & ~mask));
}

template <class T, int Degree>
inline constexpr T inverse_factorial = inverse_factorial<T, Degree - 1> / T{Degree};
template <class T>
inline constexpr T inverse_factorial<T, 0> = T{1};

/// 1/k! + r (1/(k+1)! + r (...)), up to the degree of the series.
template <class T, int K, int Degree>
TENON_BOTH constexpr T exp_series(T r) noexcept {
  constexpr T factor = static_cast<T>(inverse_factorial<double, K>);
  if constexpr (K == Degree) {
    return factor;
  } else {
    return factor + r * exp_series<T, K + 1, Degree>(r);
  }
}

}  // namespace detail

/// exp(x), within 1.5 ulp where the result is a normal number; exp(-infinity) = 0. On a GPU, whose
/// own function has an instruction for most of it, that one, within 2 ulp.
template <class T>
TENON_BOTH inline T exponential(T x) noexcept {
#if defined(__CUDA_ARCH__)
  return std::exp(x);
#else
  using numbers = detail::exp_numbers<T>;
  using bits = typename numbers::bits;
  constexpr T log2_e = static_cast<T>(1.44269504088896340736);
  // Written so that a NaN passes both selections.
  T bounded = detail::chosen(x < numbers::least, numbers::least, x);
  bounded = detail::chosen(bounded > numbers::most, numbers::most, bounded);
  const T rounded = bounded * log2_e + numbers::rounder;
  const T n = rounded - numbers::rounder;
  const T r = (bounded - n * numbers::ln2_high) - n * numbers::ln2_low;
  const T value = detail::exp_series<T, 0, numbers::degree>(r);
  // 2^n in two factors: n runs beyond the exponents that one normal number has.
  const bits shifted =
      std::bit_cast<bits>(rounded) - std::bit_cast<bits>(numbers::rounder) + numbers::shift;
  const bits half = shifted >> 1;
  const bits first = half - numbers::shift / 2 + numbers::bias;
  const bits second = shifted - half - numbers::shift / 2 + numbers::bias;
  return value * std::bit_cast<T>(first << numbers::fraction_bits) *
         std::bit_cast<T>(second << numbers::fraction_bits);
#endif
}

/// 1 / (1 + exp(-x)), within 3 ulp where exp(-x) is finite, else 0.
template <class T>
TENON_BOTH inline T sigmoid(T x) noexcept {
  return T{1} / (T{1} + exponential(-x));
}

/// tanh(x), within 3 ulp: near 0 by Lambert's continued fraction, else by exp(2|x|).
template <class T>
TENON_BOTH inline T hyperbolic_tangent(T x) noexcept {
  if constexpr (sizeof(T) == 8) {
    return std::tanh(x);
  } else {
    const T size = detail::chosen(x < T{0}, -x, x);
    const T square = x * x;
    const T grown = exponential(T{2} * size);
    const bool small = size < T(0.625);
    const T above =
        detail::chosen(small, size * (T{10395} + square * (T{1260} + square * T{21})), T{2});
    const T below = detail::chosen(
        small, T{10395} + square * (T{4725} + square * (T{210} + square)), grown + T{1});
    const T ratio = above / below;
    const T positive = detail::chosen(small, ratio, T{1} - ratio);
    return detail::chosen(x < T{0}, -positive, positive);
  }
}

/// sqrt(x) for normal numbers and 0, within 1 ulp in fp32 and 2 in fp64; NaN for infinity. (The C
/// library's sets errno, and so keeps a loop from being vectorised.)
template <class T>
TENON_BOTH inline T square_root(T x) noexcept {
  using bits = typename detail::exp_numbers<T>::bits;
  // A first guess of 1/sqrt(x) from halving the exponent, then Newton's steps.
  constexpr bits guess =
      sizeof(T) == 4 ? static_cast<bits>(0x5F375A86U) : static_cast<bits>(0x5FE6EB50C7B537A9ULL);
  constexpr int steps = sizeof(T) == 4 ? 3 : 4;
  T inverse = std::bit_cast<T>(guess - (std::bit_cast<bits>(x) >> 1));
  for (int step = 0; step < steps; ++step) {
    inverse = inverse * (T(1.5) - T(0.5) * x * inverse * inverse);
  }
  const T root = x * inverse;
  return root + T(0.5) * inverse * (x - root * root);
}

/// GELU in its tanh form, 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
/// Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016.
template <class T>
TENON_BOTH inline T gelu_value(T x) noexcept {
  constexpr T twice_root = static_cast<T>(1.59576912160573071176);
  return x * sigmoid(twice_root * (x + static_cast<T>(0.044715) * (x * x * x)));
}

/// The derivative of `gelu_value`.
template <class T>
TENON_BOTH inline T gelu_slope(T x) noexcept {
  constexpr T twice_root = static_cast<T>(1.59576912160573071176);
  // Beyond 30 the slope is 0 or 1 to the last bit, and x * x could overflow.
  T near = detail::chosen(x < T{-30}, T{-30}, x);
  near = detail::chosen(near > T{30}, T{30}, near);
  const T square = near * near;
  const T s = sigmoid(twice_root * near * (T{1} + static_cast<T>(0.044715) * square));
  const T inner = twice_root * (T{1} + static_cast<T>(0.134145) * square);
  return s + near * s * (T{1} - s) * inner;
}

/// SiLU, x sigmoid(x). Source: S. Elfwing, E. Uchibe, K. Doya, 2017.
template <class T>
TENON_BOTH inline T silu_value(T x) noexcept {
  return x * sigmoid(x);
}

/// The derivative of `silu_value`.
template <class T>
TENON_BOTH inline T silu_slope(T x) noexcept {
  const T s = sigmoid(x);
  return s * (T{1} + x * (T{1} - s));
}

}  // namespace tenon::inline v0::kernel
