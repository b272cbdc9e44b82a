// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"
#include "tenon/kernel/team/arrays.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/boxes.hpp"

// The programs that move boxes of tensors on a device, see `memory/boxes.hpp`.
namespace tenon::inline v0::kernel {

namespace detail {

/// Where the units of a box lie in both arrays; a unit is what a lane moves at once.
struct box_units {
  static constexpr int most_dims = box_pair::most_dims;
  static constexpr std::int64_t units_each = 512;  // of a team

  std::int64_t count = 1;
  int dims;
  std::int64_t size[most_dims] = {};
  std::int64_t to_steps[most_dims] = {};
  std::int64_t from_steps[most_dims] = {};

  /// In units of `length` neighbours in the last dim, with steps `scale` times as long as the
  /// box's.
  box_units(const box_pair& box, std::int64_t length, std::int64_t scale) : dims(box.dims) {
    for (int d = 0; d < dims; ++d) {
      const auto at = static_cast<std::size_t>(d);
      const std::int64_t joined = d + 1 == dims ? length : 1;
      size[d] = box.size[at] / joined;
      to_steps[d] = box.to_steps[at] * joined * scale;
      from_steps[d] = box.from_steps[at] * joined * scale;
      count *= size[d];
    }
  }
  std::int64_t teams() const noexcept { return (count + units_each - 1) / units_each; }

  /// f(place in `to`, place in `from`) of the units of a team.
  template <class Team, class F>
  TENON_BOTH void for_each(Team& team, std::int64_t i, const F& f) const {
    const std::int64_t begin = i * units_each;
    const std::int64_t left = count - begin;
    const std::int64_t here = left < units_each ? left : units_each;
    // To divide 32 bits takes a fraction of the time of 64.
    if (count <= std::int64_t{0xffffffff}) {
      team.for_each(here, [&](std::int64_t u) { at(static_cast<std::uint32_t>(begin + u), f); });
    } else {
      team.for_each(here, [&](std::int64_t u) { at(static_cast<std::uint64_t>(begin + u), f); });
    }
  }

 private:
  template <class Index, class F>
  TENON_BOTH void at(Index unit, const F& f) const {
    std::int64_t to = 0;
    std::int64_t from = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int d = most_dims - 1; d >= 0; --d) {
      if (d >= dims) continue;
      const Index outer = d == 0 ? Index{0} : unit / static_cast<Index>(size[d]);
      const auto index = static_cast<std::int64_t>(unit - outer * static_cast<Index>(size[d]));
      to += index * to_steps[d];
      from += index * from_steps[d];
      unit = outer;
    }
    f(to, from);
  }
};

template <int Bytes>
struct unit_of;
template <>
struct unit_of<1> {
  using type = std::uint8_t;
};
template <>
struct unit_of<2> {
  using type = std::uint16_t;
};
template <>
struct unit_of<4> {
  using type = std::uint32_t;
};
template <>
struct unit_of<8> {
  using type = std::uint64_t;
};
template <>
struct unit_of<16> {
  using type = sixteen_bytes;
};

template <int Bytes>
TENON_BOTH void copy_unit(std::byte* to, const std::byte* from) {
#if defined(__CUDA_ARCH__)
  using type = typename unit_of<Bytes>::type;
  *reinterpret_cast<type*>(to) = *reinterpret_cast<const type*>(from);
#else
  std::memcpy(to, from, Bytes);
#endif
}

}  // namespace detail

namespace programs {

/// Units of a box, copied.
template <int Bytes>
struct copy_box {
  static constexpr std::string_view name = "copy_box";
  detail::box_units units;  // steps in bytes
  std::byte* to;
  const std::byte* from;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    units.for_each(team, i, [t = to, f = from](std::int64_t at, std::int64_t of) {
      detail::copy_unit<Bytes>(t + at, f + of);
    });
  }
};

/// Units of a box, `Count` values each, added.
template <class T, int Count>
struct add_box {
  static constexpr std::string_view name = "add_box";
  detail::box_units units;  // steps in elements
  T* to;
  const T* from;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    using value = detail::element_value<T>;
    units.for_each(team, i, [t = to, f = from](std::int64_t at, std::int64_t of) {
      const auto sum = [](value& a, value b) { a = a + b; };
      if constexpr (Count == 1) {
        detail::apply_to_one(sum, 0, t + at, f + of);
      } else {
        detail::apply_to_pack<Count>(sum, 0, t + at, f + of);
      }
    });
  }
};

}  // namespace programs

namespace detail {

/// The widest unit, in bytes, that the run of neighbours, all steps and both addresses allow.
inline std::int64_t unit_bytes(const box_pair& box, std::int64_t width) {
  const auto last = static_cast<std::size_t>(box.dims == 0 ? 0 : box.dims - 1);
  if (box.dims == 0 || box.to_steps[last] != 1 || box.from_steps[last] != 1) return width;
  std::uint64_t all = reinterpret_cast<std::uintptr_t>(box.to) |
                      reinterpret_cast<std::uintptr_t>(box.from) |
                      static_cast<std::uint64_t>(box.size[last] * width) | 16;
  for (std::size_t d = 0; d < last; ++d) {
    all |= static_cast<std::uint64_t>(box.to_steps[d] * width) |
           static_cast<std::uint64_t>(box.from_steps[d] * width);
  }
  return static_cast<std::int64_t>(all & (~all + 1));  // the lowest bit
}

template <int Bytes>
void copy_units_on(const box_pair& box, std::int64_t width) {
  const box_units units(box, Bytes / width, width);
  for_each_device_team(units.teams(), {},
                       programs::copy_box<Bytes>{units, static_cast<std::byte*>(box.to),
                                                 static_cast<const std::byte*>(box.from)});
}
inline void copy_box_on(const box_pair& box) {
  const std::int64_t width = bytes_of(box.kind);
  switch (unit_bytes(box, width)) {
    case 16:
      return copy_units_on<16>(box, width);
    case 8:
      return copy_units_on<8>(box, width);
    case 4:
      return copy_units_on<4>(box, width);
    case 2:
      return copy_units_on<2>(box, width);
    default:
      return copy_units_on<1>(box, width);
  }
}

template <class T>
void add_values_on(const box_pair& box) {
  T* const to = static_cast<T*>(box.to);
  const T* const from = static_cast<const T*>(box.from);
  if (unit_bytes(box, sizeof(T)) == 16) {
    const box_units units(box, pack_size<T>, 1);
    for_each_device_team(units.teams(), {}, programs::add_box<T, pack_size<T>>{units, to, from});
  } else {
    const box_units units(box, 1, 1);
    for_each_device_team(units.teams(), {}, programs::add_box<T, 1>{units, to, from});
  }
}
inline void add_box_on(const box_pair& box) {
  switch (box.kind) {
    case element_kind::bf16:
      return add_values_on<bf16>(box);
    case element_kind::fp32:
      return add_values_on<fp32>(box);
    case element_kind::fp64:
      return add_values_on<fp64>(box);
    default:
      throw error(error_kind::bad_request, joined("box: values of ", name_of(box.kind),
                                                  " were to be added on a device; give "
                                                  "floating-point elements"));
  }
}

inline const bool boxes_are_entered = [] {
  box_entry::copy = &copy_box_on;
  box_entry::add = &add_box_on;
  return true;
}();

}  // namespace detail
}  // namespace tenon::inline v0::kernel
