// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tenon/base/check.hpp"
#include "tenon/base/element.hpp"

namespace tenon::inline v0 {

/// A box of values in two arrays on a device: what a box of one becomes in the other. Between two
/// values that differ by one in a dim lie `to_steps` and `from_steps` elements.
struct box_pair {
  static constexpr int most_dims = 6;

  void* to = nullptr;
  const void* from = nullptr;
  element_kind kind = element_kind::byte;
  int dims = 0;
  std::array<std::int64_t, most_dims> size{};
  std::array<std::int64_t, most_dims> to_steps{};
  std::array<std::int64_t, most_dims> from_steps{};

  /// One dim more, inside of those before it. It joins the last one where both arrays go on without
  /// a gap.
  void add_dim(std::int64_t extent, std::int64_t to_step, std::int64_t from_step) {
    if (extent == 1) return;
    const auto last = static_cast<std::size_t>(dims == 0 ? 0 : dims - 1);
    if (dims > 0 && to_steps[last] == extent * to_step && from_steps[last] == extent * from_step) {
      size[last] *= extent;
      to_steps[last] = to_step;
      from_steps[last] = from_step;
      return;
    }
    require(dims < most_dims, "box: more than ", most_dims,
            " dims stand apart in memory; use arrays of fewer dims");
    const auto next = static_cast<std::size_t>(dims++);
    size[next] = extent;
    to_steps[next] = to_step;
    from_steps[next] = from_step;
  }
};

/// What moves boxes on a device. Tensors are below the kernels and know these alone;
/// `kernel/boxes.hpp` enters them.
struct box_entry {
  using function = void (*)(const box_pair&);
  inline static function copy = nullptr;  ///< to = from
  inline static function add = nullptr;   ///< to += from, in the element's own arithmetic

  static function entered(function program) {
    if (program == nullptr) {
      throw error(error_kind::failed,
                  "box: nothing was compiled that moves boxes on a device; include "
                  "tenon/kernel/boxes.hpp");
    }
    return program;
  }
};

}  // namespace tenon::inline v0
