// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/kernel/chain.hpp"
#include "tenon/kernel/dropout.hpp"
#include "tenon/kernel/functors.hpp"
#include "tenon/kernel/fused.hpp"
#include "tenon/kernel/team/launch.hpp"

namespace tenon::inline v0::kernel {

/// Something that may follow in a pipeline: a functor of the library, or a user's `elementwise`.
template <class F>
concept stage = detail::bound_by_row<F> || elementwise<F>;

/// A source and the functors that its values pass, in order. Made by `source | functor | ...`, run
/// by `run`.
/// Thread-safety: a value.
template <source Source, stage... Stages>
struct pipeline {
  Source from;
  detail::chain<Stages...> stages;
};

/// Puts one more functor behind a source or a pipeline.
template <source Source, class Next>
constexpr auto operator|(const Source& from, const Next& next) {
  static_assert(stage<Next>,
                "pipeline: the functor cannot be called with (value, position); give it "
                "operator()(float value, position where) const");
  return pipeline<Source, Next>{from, {{next}}};
}
template <source Source, stage... Stages, class Next>
constexpr auto operator|(const pipeline<Source, Stages...>& before, const Next& next) {
  static_assert(stage<Next>,
                "pipeline: the functor cannot be called with (value, position); give it "
                "operator()(float value, position where) const");
  return pipeline<Source, Stages..., Next>{before.from, detail::appended(before.stages, next)};
}

namespace detail {

template <class T>
inline constexpr bool is_sink = false;
template <class T>
inline constexpr bool is_sink<write<T>> = true;
template <class T>
inline constexpr bool is_sink<accumulate<T>> = true;
template <class Gate, class Up, class T>
inline constexpr bool is_sink<swiglu_backward<Gate, Up, T>> = true;

/// A functor that may have nothing to do, and then leaves the pipeline.
template <class F>
concept sometimes_idle = requires(const F& f) {
  { f.idle() } -> std::convertible_to<bool>;
};

template <class Source, class... Stages>
void run_all(const pipeline<Source, Stages...>& all, std::int64_t rows, std::int64_t columns) {
  const std::int64_t across = (columns + fuse_columns - 1) / fuse_columns;
  for_each_team(rows * across, {.elements_each = std::min(columns, fuse_columns)},
                programs::fused<Source, Stages...>{all.from, all.stages, columns});
}

/// Takes the idle functors out, from the I-th on, and runs what is left.
template <std::size_t I, class Source, class... Stages>
void run_without_idle(const pipeline<Source, Stages...>& program, std::int64_t rows,
                      std::int64_t columns) {
  if constexpr (I == sizeof...(Stages)) {
    run_all(program, rows, columns);
  } else {
    using next = std::tuple_element_t<I, std::tuple<Stages...>>;
    if constexpr (sometimes_idle<next>) {
      if (get<I>(program.stages).idle()) {
        [&]<std::size_t... Before, std::size_t... After>(std::index_sequence<Before...>,
                                                         std::index_sequence<After...>) {
          using kept = std::tuple<Stages...>;
          const pipeline<Source, std::tuple_element_t<Before, kept>...,
                         std::tuple_element_t<I + 1 + After, kept>...>
              shorter{program.from,
                      {{get<Before>(program.stages)}..., {get<I + 1 + After>(program.stages)}...}};
          run_without_idle<I>(shorter, rows, columns);
        }
        (std::make_index_sequence<I>(), std::make_index_sequence<sizeof...(Stages) - I - 1>());
        return;
      }
    }
    run_without_idle<I + 1>(program, rows, columns);
  }
}

}  // namespace detail

/// Runs a pipeline once over its matrix [rows, columns], each element read and written once:
/// `run(read{x} | add{per_column{bias}} | gelu{} | dropout{p, stream, where} | add{read{residual}}
/// | write{y})`. Values pass in the wide element of the first `read`; every read widens, every
/// write rounds. A result may stand where an operand stands (element for element), but no functor
/// reads what one before it writes.
/// Errors: bad_request when the sizes of two roles differ.
template <element T, stage... Stages>
void run(const pipeline<read<T>, Stages...>& program) {
  static_assert((detail::is_sink<Stages> || ...),
                "run: the pipeline writes nothing; end it with write{y} or accumulate{y}");
  const std::int64_t rows = program.from.from.rows;
  const std::int64_t columns = program.from.from.columns;
  detail::visit(program.stages, [&](const auto& one) {
    if constexpr (detail::bound_by_row<std::remove_cvref_t<decltype(one)>>) one.fits(rows, columns);
  });
  if (rows == 0 || columns == 0) return;
  detail::run_without_idle<0>(program, rows, columns);
}

/// to = from, element by element, converted where the elements differ.
template <class To, class From>
void convert(matrix_view<To> to, matrix_view<From> from) {
  run(read{from} | write{to});
}

}  // namespace tenon::inline v0::kernel
