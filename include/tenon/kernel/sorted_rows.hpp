// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/device_services.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/memory/buffer.hpp"

// Rows added to the rows of a table that keys name, in the order of the rows:
//
//   keys 3 1 3 0 1     sorted with the rows, stable:  0 1 1 3 3
//                                                     3 1 4 0 2     one team for each run of a key
namespace tenon::inline v0::kernel {

/// Sorts pairs in the rank's memory by their keys, which are 0 .. largest; equal keys stay in the
/// order they have.
/// Errors: failed on a device for which no sort was entered.
inline void sort_pairs(std::span<std::int32_t> keys, std::span<std::int32_t> values,
                       std::int32_t largest) {
  require(keys.size() == values.size(), "sort_pairs: ", static_cast<std::int64_t>(keys.size()),
          " keys and ", static_cast<std::int64_t>(values.size()),
          " values were given; give as many");
  if (keys.size() < 2 || shapes_only::active()) return;
  if (device* const target = device::of_this_rank()) {
    return detail::sort_on_device(*target, keys, values, largest);
  }
  // By counting: the place of a pair is the number of pairs before it.
  std::vector<std::size_t> next(static_cast<std::size_t>(largest) + 2);
  for (const std::int32_t key : keys) ++next[static_cast<std::size_t>(key) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  const std::vector<std::int32_t> old_keys(keys.begin(), keys.end());
  const std::vector<std::int32_t> old_values(values.begin(), values.end());
  for (std::size_t i = 0; i < old_keys.size(); ++i) {
    const std::size_t to = next[static_cast<std::size_t>(old_keys[i])]++;
    keys[to] = old_keys[i];
    values[to] = old_values[i];
  }
}

/// The rows of a table that tokens name, where rows row_begin .. row_begin + rows - 1 are here.
struct token_rows {
  const std::int32_t* tokens;
  std::int64_t row_begin;
  TENON_BOTH std::int64_t operator()(std::int64_t row) const { return tokens[row] - row_begin; }
};

namespace programs {

/// The pairs (key of a row, row) of some rows; what is not in the table gets its end for key.
template <class KeyOf>
struct row_pairs {
  static constexpr std::string_view name = "row_pairs";
  static constexpr std::int64_t rows_each = 1024;
  KeyOf key_of;
  std::int64_t count;
  std::int32_t end;
  std::int32_t* keys;
  std::int32_t* rows;
  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t begin = i * rows_each;
    const std::int64_t left = count - begin;
    team.for_each(left < rows_each ? left : rows_each, [=, this](std::int64_t r) {
      const std::int64_t key = key_of(begin + r);
      keys[begin + r] = key >= 0 && key < end ? static_cast<std::int32_t>(key) : end;
      rows[begin + r] = static_cast<std::int32_t>(begin + r);
    });
  }
};

/// A part of the columns of the rows of one key, added to its row of the table in their order. The
/// team at the first of them does it.
template <element G>
struct add_sorted_rows {
  static constexpr std::string_view name = "add_sorted_rows";
  static constexpr int threads = 128;
  static constexpr int each = detail::pack_size<G>;
  static constexpr std::int64_t columns_each = std::int64_t{threads} * each;

  matrix_view<wide<G>> to;
  matrix_view<const G> from;
  const std::int32_t* keys;
  const std::int32_t* rows;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t parts = (to.columns + columns_each - 1) / columns_each;
    const std::int64_t first = i / parts;
    const std::int32_t key = keys[first];
    if (key == to.rows || (first > 0 && keys[first - 1] == key)) return;
    const std::int64_t end = end_of(first);
    const std::int64_t begin = i % parts * columns_each;
    const std::int64_t left = to.columns - begin;
    const std::int64_t count = left < columns_each ? left : columns_each;
    wide<G>* const sums = to.row(key) + begin;
    const G* const terms = from.data + begin;
    const bool in_packs = detail::starts_at_sixteen(sums) && detail::starts_at_sixteen(terms) &&
                          from.stride % each == 0;
    const std::int64_t packs = in_packs ? count / each : 0;
    team.for_each(packs, [=, this](std::int64_t p) {
      detail::pack<wide<G>, each> sum;
      sum.load(sums + p * each);
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
      for (std::int64_t j = first; j < end; ++j) {
        detail::pack<G, each> term;
        term.load(terms + rows[j] * from.stride + p * each);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (int k = 0; k < each; ++k) sum.values[k] += term.values[k];
      }
      sum.store(sums + p * each);
    });
    const std::int64_t rest = packs * each;
    team.for_each(count - rest, [=, this](std::int64_t c) {
      wide<G> sum = sums[rest + c];
      for (std::int64_t j = first; j < end; ++j) {
        sum += widen(terms[rows[j] * from.stride + rest + c]);
      }
      sums[rest + c] = sum;
    });
  }

 private:
  /// The end of the run of equal keys: by steps that double, then halve.
  TENON_BOTH std::int64_t end_of(std::int64_t first) const {
    std::int64_t low = first;  // in the run
    std::int64_t step = 1;
    while (low + step < from.rows && keys[low + step] == keys[first]) {
      low += step;
      step *= 2;
    }
    for (; step > 0; step /= 2) {
      if (low + step < from.rows && keys[low + step] == keys[first]) low += step;
    }
    return low + 1;
  }
};

}  // namespace programs

namespace detail {

template <element G, class KeyOf>
void add_rows_on_device(matrix_view<wide<G>> to, matrix_view<const G> from, const KeyOf& key_of) {
  if (from.rows == 0 || from.columns == 0 || to.rows == 0) return;
  require(std::max(from.rows, to.rows) < std::int64_t{1} << 31, "rows: ", from.rows,
          " rows were given for a table of ", to.rows, "; give fewer than 2^31");
  buffer<std::int32_t> keys(from.rows);
  buffer<std::int32_t> rows(from.rows);
  const auto end = static_cast<std::int32_t>(to.rows);
  using pairs = programs::row_pairs<KeyOf>;
  for_each_device_team((from.rows + pairs::rows_each - 1) / pairs::rows_each, {},
                       pairs{key_of, from.rows, end, keys.data(), rows.data()});
  sort_pairs(keys.span(), rows.span(), end);
  using sums = programs::add_sorted_rows<G>;
  const std::int64_t parts = (from.columns + sums::columns_each - 1) / sums::columns_each;
  for_each_device_team(from.rows * parts, {}, sums{to, from, keys.data(), rows.data()});
}

/// to[key_of(row)] += from[row] in the order of the rows; keys beyond the table are passed over.
/// On the host threads share the columns: the result does not depend on them.
template <class G, class KeyOf>
void add_rows_by_key(matrix_view<wide<std::remove_const_t<G>>> to, matrix_view<G> from,
                     const KeyOf& key_of) {
  if (device::of_this_rank() != nullptr) {
    return add_rows_on_device<std::remove_const_t<G>>(
        to, {from.data, from.rows, from.columns, from.stride}, key_of);
  }
  const std::int64_t piece = columns_each(from.columns);
  for_each_range(from.columns, piece, {.elements_each = from.rows * piece},
                 [&](host_team& team, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = 0; row < from.rows; ++row) {
                     const std::int64_t key = key_of(row);
                     if (key < 0 || key >= to.rows) continue;
                     auto* sums = to.row(key) + begin;
                     const G* terms = from.row(row) + begin;
                     team.for_each(end - begin,
                                   [=](std::int64_t j) { sums[j] += widen(terms[j]); });
                   }
                 });
}

}  // namespace detail
}  // namespace tenon::inline v0::kernel
