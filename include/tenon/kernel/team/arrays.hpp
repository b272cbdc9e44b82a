// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"

// How a team passes over arrays. A program names its arrays and a function of one element of each;
// the team decides how the elements are loaded and stored: one by one where the compiler makes
// vectors of the loop, 16 bytes at a time on a device.
//
//   team.apply(n, [=](float& y, float x, float g) { y = x * scale * g; }, only_written{y}, x, g);
//
// A `const T*` is read, a `T*` read and written, an `only_written` written. The function sees
// values in the wide element, and takes those that are written by reference.
namespace tenon::inline v0::kernel {

/// An array of which nothing is read.
template <class T>
struct only_written {
  T* data;
};
template <class T>
only_written(T*) -> only_written<T>;

namespace detail {

template <class T>
struct value_of_element {
  using type = T;
};
template <element T>
struct value_of_element<T> {
  using type = wide<T>;
};
/// What the function sees of an array of T.
template <class T>
using element_value = typename value_of_element<std::remove_const_t<T>>::type;

/// What a team knows of an array: its element, and whether it is loaded and stored.
template <class Array>
struct array_access;
template <class T>
struct array_access<T*> {
  using type = std::remove_const_t<T>;
  static constexpr bool loads = true;
  static constexpr bool stores = !std::is_const_v<T>;
  TENON_BOTH static constexpr T* data(T* array) noexcept { return array; }
};
template <class T>
struct array_access<only_written<T>> {
  using type = T;
  static constexpr bool loads = false;
  static constexpr bool stores = true;
  TENON_BOTH static constexpr T* data(only_written<T> array) noexcept { return array.data; }
};

template <class Array>
using element_of_array = typename array_access<Array>::type;
template <class Array>
using value_of_array = element_value<element_of_array<Array>>;

template <class Array>
TENON_BOTH inline value_of_array<Array> load_one(Array array, std::int64_t i) noexcept {
  if constexpr (array_access<Array>::loads) {
    return static_cast<value_of_array<Array>>(array_access<Array>::data(array)[i]);
  } else {
    return value_of_array<Array>{};
  }
}
template <class Array>
TENON_BOTH inline void store_one(Array array, std::int64_t i, value_of_array<Array> value) {
  if constexpr (array_access<Array>::stores) {
    array_access<Array>::data(array)[i] = static_cast<element_of_array<Array>>(value);
  }
}

/// The function at one element of each array.
template <class F, class... Arrays>
TENON_BOTH inline void apply_to_one(const F& f, std::int64_t i, Arrays... arrays) {
  [&](value_of_array<Arrays>... values) {
    f(values...);
    (store_one(arrays, i, values), ...);
  }(load_one(arrays, i)...);
}

// ---- 16 bytes at a time -------------------------------------------------------------------------

/// One load or store of a lane.
struct alignas(16) sixteen_bytes {
  std::uint32_t words[4];
};

#if defined(__CUDA_ARCH__)
TENON_BOTH inline sixteen_bytes load_sixteen(const void* from) {
  const uint4 w = *static_cast<const uint4*>(from);
  return {{w.x, w.y, w.z, w.w}};
}
TENON_BOTH inline void store_sixteen(void* to, const sixteen_bytes& value) {
  // Written out: of an assignment the compiler makes four stores where it loses sight of the words.
  asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.words[0]),
               "r"(value.words[1]), "r"(value.words[2]), "r"(value.words[3])
               : "memory");
}
#else
TENON_BOTH inline sixteen_bytes load_sixteen(const void* from) {
  sixteen_bytes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
TENON_BOTH inline void store_sixteen(void* to, const sixteen_bytes& value) {
  std::memcpy(to, &value, sizeof value);
}
#endif

/// `Count` elements of an array in registers, loaded and stored in accesses of 16 bytes.
template <class T, int Count>
struct pack {
  static constexpr int accesses = Count * static_cast<int>(sizeof(T)) / 16;
  static_assert(accesses * 16 == Count * static_cast<int>(sizeof(T)),
                "pack: not a whole number of 16-byte accesses; take more elements");
  element_value<T> values[Count];

  TENON_BOTH void load(const T* from) {
    constexpr int each = Count / accesses;
    for (int a = 0; a < accesses; ++a) {
      const sixteen_bytes block = load_sixteen(from + a * each);
      T elements[each];
      std::memcpy(static_cast<void*>(elements), &block, sizeof block);
      for (int i = 0; i < each; ++i) {
        values[a * each + i] = static_cast<element_value<T>>(elements[i]);
      }
    }
  }
  TENON_BOTH void store(T* to) const {
    constexpr int each = Count / accesses;
    for (int a = 0; a < accesses; ++a) {
      T elements[each];
      for (int i = 0; i < each; ++i) elements[i] = static_cast<T>(values[a * each + i]);
      sixteen_bytes block;
      std::memcpy(&block, elements, sizeof block);
      store_sixteen(to + a * each, block);
    }
  }
};

TENON_BOTH inline bool starts_at_sixteen(const void* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// The elements that a lane takes at once, so that the array of the smallest element is accessed 16
/// bytes at a time.
template <class... Ts>
inline constexpr int pack_size = [] {
  std::size_t least = 16;
  ((least = sizeof(Ts) < least ? sizeof(Ts) : least), ...);
  return static_cast<int>(16 / least);
}();

/// The pack of an array at the elements begin ..; loaded where the array is.
template <int Count, class Array>
TENON_BOTH inline pack<element_of_array<Array>, Count> load_pack(Array array, std::int64_t begin) {
  pack<element_of_array<Array>, Count> all{};
  if constexpr (array_access<Array>::loads) all.load(array_access<Array>::data(array) + begin);
  return all;
}
template <int Count, class Array>
TENON_BOTH inline void store_pack(Array array, std::int64_t begin,
                                  const pack<element_of_array<Array>, Count>& all) {
  if constexpr (array_access<Array>::stores) all.store(array_access<Array>::data(array) + begin);
}

/// The function at `Count` elements of each array from `begin` on: all are loaded before the first
/// is stored.
template <int Count, class F, class... Arrays>
TENON_BOTH inline void apply_to_pack(const F& f, std::int64_t begin, Arrays... arrays) {
  [&](auto... packs) {
    for (int i = 0; i < Count; ++i) f(packs.values[i]...);
    (store_pack<Count>(arrays, begin, packs), ...);
  }(load_pack<Count>(arrays, begin)...);
}

}  // namespace detail
}  // namespace tenon::inline v0::kernel
