// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/base/host_device.hpp"
#include "tenon/kernel/team/arrays.hpp"

namespace tenon::inline v0::kernel {

/// Lanes of a team that exchange registers without memory.
inline constexpr int warp_lanes = 32;

/// The algorithms of a team of many lanes, over what `Self` gives: `rank()`, `barrier()`,
/// `shuffle_xor(value, mask)` within 32 lanes, `exchange()`, memory that all lanes share, for one
/// number of 8 bytes from each 32 lanes. The device's blocks and the fibres that stand for them on
/// a host run this same code.
///
///   reduce      lane   0 1 2 .. 31 | 32 .. 63 | ...   f over i = lane, lane + size, ...
///               shuffles: one number a warp  |  exchange, barrier: all lanes add those in order
///
/// All lanes call `reduce`, `sum` and `barrier`; `for_each`, `apply` and `once` wait for nobody.
template <class Self, int Size>
class lanes {
  static_assert(Size % warp_lanes == 0 && Size >= warp_lanes && Size <= 1024,
                "team: the number of lanes is no multiple of 32 from 32 to 1024; choose one");

 public:
  static constexpr std::int64_t load_bytes = 16;

  TENON_BOTH static constexpr std::int64_t size() noexcept { return Size; }

  template <class F>
  TENON_BOTH void for_each(std::int64_t n, F&& f) const {
    for (std::int64_t i = self().rank(); i < n; i += Size) f(i);
  }
  template <class F>
  TENON_BOTH void once(F&& f) const {
    if (self().rank() == 0) f();
  }

  /// 16 bytes at a time where every array begins at a multiple of 16; what is left over one by one.
  template <class F, class... Arrays>
  TENON_BOTH void apply(std::int64_t n, const F& f, Arrays... arrays) const {
    constexpr int each = detail::pack_size<detail::element_of_array<Arrays>...>;
    std::int64_t begin = 0;
    if ((detail::starts_at_sixteen(detail::array_access<Arrays>::data(arrays)) && ...)) {
      const std::int64_t packs = n / each;
      for (std::int64_t i = self().rank(); i < packs; i += Size) {
        detail::apply_to_pack<each>(f, i * each, arrays...);
      }
      begin = packs * each;
    }
    for (std::int64_t i = begin + self().rank(); i < n; i += Size) {
      detail::apply_to_one(f, i, arrays...);
    }
  }

  template <class T, class F, class Op>
  TENON_BOTH T reduce(std::int64_t n, T neutral, F&& f, Op&& op) {
    T own = neutral;
    for (std::int64_t i = self().rank(); i < n; i += Size) own = op(own, static_cast<T>(f(i)));
    return reduce_lanes(own, neutral, op);
  }
  template <class T, class F>
  TENON_BOTH T sum(std::int64_t n, F&& f) {
    return reduce(n, T{0}, f, addition{});
  }

  template <class T, class F, class Op, class... Arrays>
  TENON_BOTH T reduce_of(std::int64_t n, T neutral, const F& f, Op&& op, Arrays... arrays) {
    constexpr int each = detail::pack_size<detail::element_of_array<Arrays>...>;
    T own = neutral;
    std::int64_t begin = 0;
    if ((detail::starts_at_sixteen(detail::array_access<Arrays>::data(arrays)) && ...)) {
      const std::int64_t packs = n / each;
      for (std::int64_t i = self().rank(); i < packs; i += Size) {
        [&](auto... values) {
          for (int k = 0; k < each; ++k) own = op(own, static_cast<T>(f(values.values[k]...)));
        }(detail::load_pack<each>(arrays, i * each)...);
      }
      begin = packs * each;
    }
    for (std::int64_t i = begin + self().rank(); i < n; i += Size) {
      own = op(own, static_cast<T>(f(detail::load_one(arrays, i)...)));
    }
    return reduce_lanes(own, neutral, op);
  }
  template <class T, class F, class... Arrays>
  TENON_BOTH T sum_of(std::int64_t n, const F& f, Arrays... arrays) {
    return reduce_of(n, T{0}, f, addition{}, arrays...);
  }

 private:
  struct addition {
    template <class T>
    TENON_BOTH T operator()(T a, T b) const {
      return a + b;
    }
  };

  /// op over one number of each lane, given to all lanes; its order is that of the lanes.
  template <class T, class Op>
  TENON_BOTH T reduce_lanes(T own, T neutral, Op&& op) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>,
                  "team: a number to reduce is wider than 8 bytes; reduce its parts");
    for (int mask = warp_lanes / 2; mask > 0; mask /= 2) {
      own = op(own, self().shuffle_xor(own, mask));
    }
    if constexpr (Size > warp_lanes) {
      T* of_warps = reinterpret_cast<T*>(self().exchange());
      if (self().rank() % warp_lanes == 0) of_warps[self().rank() / warp_lanes] = own;
      self().barrier();
      own = neutral;
      for (int w = 0; w < Size / warp_lanes; ++w) own = op(own, of_warps[w]);
      self().barrier();  // the next reduction writes where this one reads
    }
    return own;
  }

  TENON_BOTH Self& self() noexcept { return static_cast<Self&>(*this); }
  TENON_BOTH const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

}  // namespace tenon::inline v0::kernel
