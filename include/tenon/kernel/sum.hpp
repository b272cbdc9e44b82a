// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/base/type_list.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/team/launch.hpp"

namespace tenon::inline v0::kernel {

namespace programs {

/// One team adds numbers up in fp64.
template <std::floating_point W>
struct sum_of_values {
  static constexpr std::string_view name = "sum_of_values";
  static constexpr int threads = 512;

  double* total;
  const W* values;
  std::int64_t count;
  output how;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t) const {
    const double sum = team.template sum_of<double>(
        count, [](W value) { return static_cast<double>(value); }, values);
    team.once([&] { *total = how == output::accumulate ? *total + sum : sum; });
  }
};

}  // namespace programs

/// total = the sum of the values, or total += that, in fp64 and in the rank's memory. On the host
/// they are added one after the other.
template <std::floating_point W>
void sum_into(double* total, std::span<const W> values, output how = output::overwrite) {
  if (shapes_only::active()) return;
  const auto count = static_cast<std::int64_t>(values.size());
  if (device::of_this_rank() != nullptr) {
    return for_each_device_team(1, {},
                                programs::sum_of_values<W>{total, values.data(), count, how});
  }
  double sum = how == output::accumulate ? *total : 0;
  for (const W value : values) sum += static_cast<double>(value);
  *total = sum;
}

template <class W>
using sum_programs = type_list<programs::sum_of_values<W>>;

}  // namespace tenon::inline v0::kernel
