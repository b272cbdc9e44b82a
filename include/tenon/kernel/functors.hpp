// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/kernel/math.hpp"
#include "tenon/kernel/sources.hpp"

// The functors that `fuse.hpp` composes.
namespace tenon::inline v0::kernel {

/// Where a value stands in the matrix that a pipeline runs over.
struct position {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// A user's functor: called with the value (in the wide element) and its position. For a device its
/// operator is marked TENON_BOTH; `static constexpr std::string_view name` is used in messages.
template <class F>
concept elementwise = requires(const F& f, fp32 value, position where) {
  { f(value, where) } -> std::convertible_to<fp32>;
}
|| requires(const F& f, fp64 value, position where) {
  { f(value, where) } -> std::convertible_to<fp64>;
};

// ---- functors of the value alone ----------------------------------------------------------------

/// value * factor
struct scale {
  static constexpr std::string_view name = "scale";
  double factor = 1;
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return value * static_cast<V>(factor);
  }
};

/// GELU, see `gelu_value`.
struct gelu {
  static constexpr std::string_view name = "gelu";
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return gelu_value(value);
  }
};

/// SiLU, see `silu_value`.
struct silu {
  static constexpr std::string_view name = "silu";
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return silu_value(value);
  }
};

/// F::value(value) and F::slope(value), of a function of one value: see `function`.
template <class F>
struct value_of {
  static constexpr std::string_view name = "value_of";
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return F::value(value);
  }
};
template <class F>
struct slope_of {
  static constexpr std::string_view name = "slope_of";
  template <class V>
  TENON_BOTH V operator()(V value, position) const {
    return F::slope(value);
  }
};

// ---- functors of the value and a source ---------------------------------------------------------

namespace detail {
/// A functor f(value, other) whose `other` comes from a source.
template <class F, source S>
struct with_source {
  static constexpr std::string_view name = F::name;
  S other;

  void fits(std::int64_t rows, std::int64_t columns) const { other.fits(rows, columns); }
  struct bound {
    static constexpr int pack_size = bound_source<S>::pack_size;
    bound_source<S> from;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      return F::apply(value, static_cast<V>(from(column)));
    }
    TENON_BOTH bool in_packs() const { return from.in_packs(); }

    template <int Count>
    struct packed {
      typename bound_source<S>::template packed<Count> others;
      TENON_BOTH packed(const bound& all, std::int64_t column) : others(all.from, column) {}
      template <class V>
      TENON_BOTH V operator()(V value, int i) const {
        return F::apply(value, static_cast<V>(others(i)));
      }
      TENON_BOTH void flush() const {}
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const { return {other.at_row(row)}; }
};

struct addition {
  static constexpr std::string_view name = "add";
  template <class V>
  TENON_BOTH static V apply(V value, V other) {
    return value + other;
  }
};
struct multiplication {
  static constexpr std::string_view name = "multiply";
  template <class V>
  TENON_BOTH static V apply(V value, V other) {
    return value * other;
  }
};
struct gelu_gradient {
  static constexpr std::string_view name = "gelu_backward";
  template <class V>
  TENON_BOTH static V apply(V gradient, V x) {
    return gradient * gelu_slope(x);
  }
};
struct silu_gradient {
  static constexpr std::string_view name = "silu_backward";
  template <class V>
  TENON_BOTH static V apply(V gradient, V x) {
    return gradient * silu_slope(x);
  }
};
struct gated_silu {
  static constexpr std::string_view name = "swiglu";
  template <class V>
  TENON_BOTH static V apply(V gate, V other) {
    return silu_value(gate) * other;
  }
};
}  // namespace detail

/// value + source
template <source S>
struct add : detail::with_source<detail::addition, S> {};
template <source S>
add(S) -> add<S>;

/// value * source
template <source S>
struct multiply : detail::with_source<detail::multiplication, S> {};
template <source S>
multiply(S) -> multiply<S>;

/// The value is the gradient of gelu(x), the source is x: gives the gradient of x.
template <source S>
struct gelu_backward : detail::with_source<detail::gelu_gradient, S> {};
template <source S>
gelu_backward(S) -> gelu_backward<S>;

/// The value is the gradient of silu(x), the source is x: gives the gradient of x.
template <source S>
struct silu_backward : detail::with_source<detail::silu_gradient, S> {};
template <source S>
silu_backward(S) -> silu_backward<S>;

/// SwiGLU: silu(value) * source. Source: N. Shazeer, GLU variants improve transformer, 2020.
template <source S>
struct swiglu : detail::with_source<detail::gated_silu, S> {};
template <source S>
swiglu(S) -> swiglu<S>;

/// The value is the gradient of silu(gate) * up: writes the gradients of gate and of up, which may
/// be where gate and up are; the value passes.
template <source Gate, source Up, element T>
struct swiglu_backward {
  static constexpr std::string_view name = "swiglu_backward";
  Gate gate;
  Up up;
  write<T> gate_gradient;
  write<T> up_gradient;

  void fits(std::int64_t rows, std::int64_t columns) const {
    gate.fits(rows, columns);
    up.fits(rows, columns);
    gate_gradient.fits(rows, columns);
    up_gradient.fits(rows, columns);
  }

  template <class V>
  TENON_BOTH static V gradient_of_gate(V value, V x, V s, V other) {
    return value * other * (s * (V{1} + x * (V{1} - s)));
  }
  struct bound {
    using bound_gate = detail::bound_source<Gate>;
    using bound_up = detail::bound_source<Up>;
    using bound_write = typename write<T>::bound;
    static constexpr int pack_size = detail::common_pack_size<bound_gate, bound_up, bound_write>;
    bound_gate gate;
    bound_up up;
    bound_write gate_gradient;
    bound_write up_gradient;
    template <class V>
    TENON_BOTH V operator()(V value, std::int64_t column) const {
      const V x = static_cast<V>(gate(column));
      const V other = static_cast<V>(up(column));
      const V s = sigmoid(x);
      gate_gradient(gradient_of_gate(value, x, s, other), column);
      up_gradient(value * (x * s), column);
      return value;
    }
    TENON_BOTH bool in_packs() const {
      return gate.in_packs() && up.in_packs() && gate_gradient.in_packs() && up_gradient.in_packs();
    }

    template <int Count>
    struct packed {
      typename bound_gate::template packed<Count> gate;
      typename bound_up::template packed<Count> up;
      typename bound_write::template packed<Count> gate_gradient;
      typename bound_write::template packed<Count> up_gradient;
      TENON_BOTH packed(const bound& all, std::int64_t column)
          : gate(all.gate, column),
            up(all.up, column),
            gate_gradient(all.gate_gradient, column),
            up_gradient(all.up_gradient, column) {}
      template <class V>
      TENON_BOTH V operator()(V value, int i) {
        const V x = static_cast<V>(gate(i));
        const V other = static_cast<V>(up(i));
        const V s = sigmoid(x);
        gate_gradient(gradient_of_gate(value, x, s, other), i);
        up_gradient(value * (x * s), i);
        return value;
      }
      TENON_BOTH void flush() const {
        gate_gradient.flush();
        up_gradient.flush();
      }
    };
  };
  TENON_BOTH bound at_row(std::int64_t row) const {
    return {gate.at_row(row), up.at_row(row), gate_gradient.at_row(row), up_gradient.at_row(row)};
  }
};
template <source Gate, source Up, element T>
swiglu_backward(Gate, Up, write<T>, write<T>) -> swiglu_backward<Gate, Up, T>;

}  // namespace tenon::inline v0::kernel
