// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/balance.hpp"
#include "tenon/kernel/routing.hpp"
#include "tenon/kernel/rows/cross_entropy.hpp"
#include "tenon/kernel/rows/cut_norm.hpp"
#include "tenon/kernel/rows/layer_norm.hpp"
#include "tenon/kernel/rows/rms_norm.hpp"
#include "tenon/kernel/rows/softmax.hpp"
#include "tenon/kernel/rows/top_k.hpp"

namespace tenon::inline v0::kernel {

namespace detail {
template <class RowProgram, class Sum>
using block_of_rows = in_ranges<programs::row_block<RowProgram, Sum>>;
}  // namespace detail

/// The programs over rows of elements of T that a unit enters for a device.
template <element T>
using row_programs =
    type_list<programs::layer_norm<T>,
              detail::block_of_rows<programs::layer_norm_backward<T>, wide<T>>,
              programs::rms_norm<T>, detail::block_of_rows<programs::rms_norm_backward<T>, wide<T>>,
              in_ranges<programs::add_block_sums<wide<T>>>, programs::softmax<T>,
              programs::softmax_backward<T>, programs::cross_entropy_maximum<T>,
              programs::cross_entropy_sums<T>, in_ranges<programs::cross_entropy_loss<wide<T>>>,
              programs::cross_entropy_backward<T>>;

/// The same of norms whose rows are cut over ranks.
template <element T>
using cut_norm_programs = type_list<programs::row_sums<T>, in_ranges<programs::multiplied<wide<T>>>,
                                    programs::cut_norm<T>, programs::cut_norm_slopes<T>,
                                    detail::block_of_rows<programs::cut_norm_backward<T>, wide<T>>>;

/// The same of experts. Their router works in the wide element.
template <element T>
using expert_programs =
    type_list<programs::top_k<wide<T>>, programs::top_k_backward<wide<T>>,
              programs::softmax<wide<T>>, programs::gather_rows<T>, programs::combine_rows<T>,
              programs::combine_rows_backward<T>, programs::balance_sums<wide<T>>,
              programs::balance_backward<wide<T>>>;

}  // namespace tenon::inline v0::kernel
