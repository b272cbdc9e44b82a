// expect: pointwise: the function has no value or no slope; give it static value(v) and slope(v)
// SPDX-License-Identifier: Apache-2.0
#include "tenon/layer/pointwise.hpp"

using namespace tenon;

template <class S>
using inner = tensor<fp32, dims<batch, sequence, ffn>, placement<on<axis::tensor, S>>>;

struct doubled {
  template <class V>
  static V value(V v) {
    return v + v;
  }
#ifdef CONTROL
  template <class V>
  static V slope(V) {
    return V(2);
  }
#endif
};

using result = output_of<pointwise<doubled>, inner<replicated>>;
