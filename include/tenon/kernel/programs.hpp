// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/type_list.hpp"
#include "tenon/kernel/adamw_tensors.hpp"
#include "tenon/kernel/boxes.hpp"
#include "tenon/kernel/column_sum.hpp"
#include "tenon/kernel/embedding.hpp"
#include "tenon/kernel/flat.hpp"
#include "tenon/kernel/functions.hpp"
#include "tenon/kernel/fuse.hpp"
#include "tenon/kernel/optimizer.hpp"
#include "tenon/kernel/rotary.hpp"
#include "tenon/kernel/sorted_rows.hpp"
#include "tenon/kernel/sum.hpp"

// The programs that the library itself runs, for the units that compile them for a device. A user's
// pipeline is compiled by entering its own `programs::fused<Source, Stages...>`.
namespace tenon::inline v0::kernel {

/// Pipelines of layers, in the order of the layers; W is wide<E>.
template <element E, element W = wide<E>>
using fused_programs = type_list<
    // dropout, and what is left of it where nothing is dropped: a copy
    programs::fused<read<E>, dropout, write<E>>, programs::fused<read<E>, write<E>>,
    // biases, sums of residuals and of terms of products
    programs::fused<read<E>, add<per_column<E>>, write<E>>, programs::fused<read<E>, accumulate<E>>,
    programs::fused<read<W>, add<read<W>>, write<W>>,
    // other elements
    programs::fused<read<E>, write<W>>, programs::fused<read<W>, write<E>>,
    // feed-forward networks
    programs::fused<read<E>, value_of<function::gelu>, write<E>>,
    programs::fused<read<E>, slope_of<function::gelu>, multiply<read<E>>, write<E>>,
    programs::fused<read<E>, value_of<function::silu>, write<E>>,
    programs::fused<read<E>, slope_of<function::silu>, multiply<read<E>>, write<E>>,
    programs::fused<read<E>, swiglu<read<E>>, write<E>>,
    programs::fused<read<E>, swiglu_backward<read<E>, read<E>, E>>>;

/// Flat arrays of activations, weights and gradients.
template <element E, element W = wide<E>>
using flat_programs =
    type_list<in_ranges<programs::scale_by<W>>, in_ranges<programs::add_scaled<W, W>>,
              in_ranges<programs::add_scaled<E, E>>, in_ranges<programs::convert<E, E>>,
              in_ranges<programs::convert<E, W>>, in_ranges<programs::convert<W, E>>,
              in_ranges<programs::squares<W>>, in_ranges<programs::not_finite<W>>,
              in_ranges<programs::not_finite<E>>>;

/// The step of the optimizer.
template <element E, element W = wide<E>>
using optimizer_programs =
    type_list<in_ranges<programs::adamw<W, bf16>>, in_ranges<programs::adamw<W, W>>,
              programs::adamw_all<W, bf16>, programs::gradient_squares<W, bf16>,
              programs::scale_gradients<W, bf16>>;

/// Tables, positions and sums over rows.
template <element E>
using lookup_programs =
    type_list<programs::embedding<E>, programs::add_positions<E>, programs::add_sorted_rows<E>,
              programs::rotate<E>, programs::sum_of_rows<E>, programs::sum_of_blocks<wide<E>>>;

/// Sums of boxes of tensors.
template <element E>
using box_programs = type_list<programs::add_box<E, 1>, programs::add_box<E, detail::pack_size<E>>>;

/// All of these.
template <element E>
using element_programs = concatenated_t<fused_programs<E>, flat_programs<E>, optimizer_programs<E>,
                                        lookup_programs<E>, box_programs<E>>;

/// Those that no element has a part in.
using plain_programs =
    type_list<programs::sum_of_values<double>, programs::clip, programs::row_pairs<token_rows>,
              programs::row_pairs<row_places>, programs::copy_box<1>, programs::copy_box<2>,
              programs::copy_box<4>, programs::copy_box<8>, programs::copy_box<16>>;

}  // namespace tenon::inline v0::kernel
