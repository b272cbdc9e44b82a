// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/host_device.hpp"
#include "tenon/kernel/math.hpp"

/// The functions of one value that come with the library, with their slopes. A user's own is any
/// such struct, its members marked TENON_BOTH where a device is to run them.
namespace tenon::inline v0::function {

/// GELU in its tanh form. Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016.
struct gelu {
  template <class V>
  TENON_BOTH static V value(V v) {
    return kernel::gelu_value(v);
  }
  template <class V>
  TENON_BOTH static V slope(V v) {
    return kernel::gelu_slope(v);
  }
};

/// v * sigmoid(v). Source: S. Elfwing, E. Uchibe, K. Doya, Sigmoid-weighted linear units, 2018.
struct silu {
  template <class V>
  TENON_BOTH static V value(V v) {
    return kernel::silu_value(v);
  }
  template <class V>
  TENON_BOTH static V slope(V v) {
    return kernel::silu_slope(v);
  }
};

}  // namespace tenon::inline v0::function
