// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tenon/base/element.hpp"
#include "tenon/kernel/blas.hpp"
#include "tenon/kernel/device_services.hpp"
#include "tenon/kernel/product_log.hpp"
#include "tenon/kernel/team/launch.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::kernel {

/// The operands have one element, and the result has it too or the wide one.
template <class C, class A, class B>
concept can_multiply = element<std::remove_const_t<A>> &&
    std::same_as<std::remove_const_t<A>, std::remove_const_t<B>> && element<C> &&
    (std::same_as<C, std::remove_const_t<A>> || std::same_as<C, wide<std::remove_const_t<A>>>);

/// What may be tuned in a product: no choice changes what the result means.
struct product_tuning {
  /// Threads cut C in multiples of this.
  static constexpr std::int64_t grain = 16;
  /// Fewer multiplications than this stay on one thread.
  static constexpr double fewest_for_threads = 64.0 * 64 * 64;
  /// The panels of bf16 operands that are widened at a time: C tile, and depth.
  static constexpr std::int64_t panel_rows = 256;
  static constexpr std::int64_t panel_columns = 512;
  static constexpr std::int64_t panel_depth = 512;
};

namespace detail {

/// C cut in `rows` x `columns` parts, one for each thread.
struct product_grid {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

/// The largest part when `size` is cut in `parts` at multiples of the grain.
constexpr std::int64_t largest_part(std::int64_t size, std::int64_t parts) noexcept {
  const std::int64_t grains = (size + product_tuning::grain - 1) / product_tuning::grain;
  return std::min(size, (grains + parts - 1) / parts * product_tuning::grain);
}
constexpr std::int64_t part_begin(std::int64_t size, std::int64_t parts, std::int64_t i) noexcept {
  const std::int64_t grains = (size + product_tuning::grain - 1) / product_tuning::grain;
  const std::int64_t first = grains / parts * i + std::min(grains % parts, i);
  return std::min(size, first * product_tuning::grain);
}

/// The cut whose largest part costs least: its multiplications, and packing the operands' edges.
constexpr product_grid best_grid(std::int64_t m, std::int64_t n, std::int64_t parts) noexcept {
  product_grid best{};
  double least = -1;
  for (std::int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const auto height = static_cast<double>(largest_part(m, rows));
    const auto width = static_cast<double>(largest_part(n, parts / rows));
    const double cost = height * width + 8 * (height + width);
    if (least < 0 || cost < least) {
      least = cost;
      best = {rows, parts / rows};
    }
  }
  return best;
}

inline void widen_panel(const bf16* from, std::int64_t from_stride, std::int64_t rows,
                        std::int64_t columns, float* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const bf16* source = from + i * from_stride;
    float* target = to + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) target[j] = static_cast<float>(source[j]);
  }
}

constexpr std::int64_t product_scratch(std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  const std::int64_t pm = std::min(m, product_tuning::panel_rows);
  const std::int64_t pn = std::min(n, product_tuning::panel_columns);
  const std::int64_t pk = std::min(k, product_tuning::panel_depth);
  return host_team::scratch_bytes<float>(pm * pk) + host_team::scratch_bytes<float>(pk * pn) +
         host_team::scratch_bytes<float>(pm * pn);
}

/// One thread's part with bf16 operands: panels are widened to fp32 and multiplied there, and the
/// sum over the whole of k is kept in fp32.
template <class C>
void product_of_bf16(host_team& team, matrix_view<C> c, matrix_view<const bf16> a,
                     orientation a_form, matrix_view<const bf16> b, orientation b_form,
                     std::int64_t k, output how) {
  const bool ta = a_form == orientation::transposed;
  const bool tb = b_form == orientation::transposed;
  const std::int64_t pm = std::min(c.rows, product_tuning::panel_rows);
  const std::int64_t pn = std::min(c.columns, product_tuning::panel_columns);
  const std::int64_t pk = std::min(k, product_tuning::panel_depth);
  float* a_panel = team.scratch<float>(pm * pk);
  float* b_panel = team.scratch<float>(pk * pn);
  float* sums = team.scratch<float>(pm * pn);
  for (std::int64_t j = 0; j < c.columns; j += pn) {
    const std::int64_t nj = std::min(pn, c.columns - j);
    for (std::int64_t i = 0; i < c.rows; i += pm) {
      const std::int64_t mi = std::min(pm, c.rows - i);
      C* to = c.row(i) + j;
      const bool direct = std::same_as<C, float>;
      for (std::int64_t l = 0; l < k; l += pk) {
        const std::int64_t kl = std::min(pk, k - l);
        const std::int64_t a_rows = ta ? kl : mi;
        const std::int64_t a_columns = ta ? mi : kl;
        widen_panel(a.row(ta ? l : i) + (ta ? i : l), a.stride, a_rows, a_columns, a_panel);
        const std::int64_t b_rows = tb ? nj : kl;
        const std::int64_t b_columns = tb ? kl : nj;
        widen_panel(b.row(tb ? j : l) + (tb ? l : j), b.stride, b_rows, b_columns, b_panel);
        if constexpr (direct) {
          const float beta = l > 0 || how == output::accumulate ? 1.0F : 0.0F;
          blas_product(a_form, b_form, mi, nj, kl, 1.0F, a_panel, a_columns, b_panel, b_columns,
                       beta, to, c.stride);
        } else {
          blas_product(a_form, b_form, mi, nj, kl, 1.0F, a_panel, a_columns, b_panel, b_columns,
                       l > 0 ? 1.0F : 0.0F, sums, nj);
        }
      }
      if constexpr (!direct) {
        for (std::int64_t row = 0; row < mi; ++row) {
          C* out = to + row * c.stride;
          const float* sum = sums + row * nj;
          const bool add = how == output::accumulate;
          team.for_each(nj, [=](std::int64_t x) {
            out[x] = C(sum[x] + (add ? static_cast<float>(out[x]) : 0.0F));
          });
        }
      }
    }
  }
}

}  // namespace detail

/// C[m,n] = op(A)[m,k] op(B)[k,n], or C += that. A is stored [m,k] (transposed: [k,m]) and B [k,n]
/// (transposed: [n,k]). Sums over k are kept in the wide element; for bf16 the result may be fp32:
/// gradients of weights are added up so. Empty sizes are allowed: k = 0 gives zeros, or adds none.
/// C must not overlap A or B. On a device a library multiplies, see `device_services`.
/// Errors: bad_request when the sizes do not fit.
template <class C, class A, class B>
void product(matrix_view<C> c, matrix_view<A> a, orientation a_form, matrix_view<B> b,
             orientation b_form, output how = output::overwrite) {
  static_assert(can_multiply<C, A, B>,
                "product: the elements do not fit; use one element for both operands, and for the "
                "result the same or its wide one");
  using operand = std::remove_const_t<A>;
  const bool ta = a_form == orientation::transposed;
  const bool tb = b_form == orientation::transposed;
  const std::int64_t m = c.rows;
  const std::int64_t n = c.columns;
  const std::int64_t k = ta ? a.rows : a.columns;
  require((ta ? a.columns : a.rows) == m && (tb ? b.rows : b.columns) == n &&
              (tb ? b.columns : b.rows) == k,
          "product: a result of ", m, " x ", n, " was asked for from ", ta ? a.columns : a.rows,
          " x ", k, " and ", tb ? b.columns : b.rows, " x ", tb ? b.rows : b.columns,
          "; give sizes that match");
  if (m == 0 || n == 0) return;
  if (!shapes_only::active()) {
    detail::keep_blas_on_one_thread();
    detail::note_product({m, n, k, a_form, b_form, how, kind_of<operand>, 1});
  }
  if (device* const target = device::of_this_rank(); target != nullptr) {
    if (shapes_only::active()) return;
    const product_call call{.m = m,
                            .n = n,
                            .k = k,
                            .a = a.data,
                            .a_stride = a.stride,
                            .a_form = a_form,
                            .b = b.data,
                            .b_stride = b.stride,
                            .b_form = b_form,
                            .c = c.data,
                            .c_stride = c.stride,
                            .how = how,
                            .operands = kind_of<operand>,
                            .result = kind_of<C>};
    return detail::product_on_device(*target, call);
  }
  const double size = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t parts = size < product_tuning::fewest_for_threads ? 1 : threads();
  const detail::product_grid grid = detail::best_grid(m, n, parts);
  constexpr bool in_panels = std::same_as<operand, bf16>;
  const launch shape{
      .scratch_bytes = in_panels ? detail::product_scratch(detail::largest_part(m, grid.rows),
                                                           detail::largest_part(n, grid.columns), k)
                                 : 0};
  for_each_team(grid.rows * grid.columns, shape, [&](host_team& team, std::int64_t part) {
    const std::int64_t row = part / grid.columns;
    const std::int64_t column = part % grid.columns;
    const std::int64_t i = detail::part_begin(m, grid.rows, row);
    const std::int64_t j = detail::part_begin(n, grid.columns, column);
    const std::int64_t height = detail::part_begin(m, grid.rows, row + 1) - i;
    const std::int64_t width = detail::part_begin(n, grid.columns, column + 1) - j;
    if (height == 0 || width == 0) return;
    const matrix_view<C> to{c.row(i) + j, height, width, c.stride};
    const matrix_view<const operand> from_a =
        ta ? matrix_view<const operand>{a.data + i, k, height, a.stride}
           : matrix_view<const operand>{a.data + i * a.stride, height, k, a.stride};
    const matrix_view<const operand> from_b =
        tb ? matrix_view<const operand>{b.data + j * b.stride, width, k, b.stride}
           : matrix_view<const operand>{b.data + j, k, width, b.stride};
    if constexpr (in_panels) {
      if (k == 0) {
        if (how == output::accumulate) return;
        for (std::int64_t r = 0; r < height; ++r) std::fill_n(to.row(r), width, C(0.0F));
        return;
      }
      detail::product_of_bf16(team, to, from_a, a_form, from_b, b_form, k, how);
    } else {
      static_cast<void>(team);
      const C beta = how == output::accumulate ? C{1} : C{0};
      detail::blas_product(a_form, b_form, height, width, k, C{1}, from_a.data, a.stride,
                           from_b.data, b.stride, beta, to.data, c.stride);
    }
  });
}

}  // namespace tenon::inline v0::kernel
