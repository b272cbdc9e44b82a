// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tenon/kernel/chain.hpp"
#include "tenon/kernel/functors.hpp"

// The program that runs a pipeline of `fuse.hpp`: element by element where a team is one lane, so
// that the compiler makes vectors of the loop, and in packs of 16 bytes on a device.
namespace tenon::inline v0::kernel {

namespace detail {

/// A functor of the library: it checks its sizes and is bound to a row.
template <class F>
concept bound_by_row = requires(const F& f, std::int64_t i) {
  f.fits(i, i);
  f.at_row(i);
};

/// A functor of the value and its place, at a row.
template <class F>
struct user_bound {
  F f;
  std::int64_t row;
  template <class V>
  TENON_BOTH V operator()(V value, std::int64_t column) const {
    return static_cast<V>(f(value, position{row, column}));
  }
};

template <class F>
TENON_BOTH auto bind_to_row(const F& f, std::int64_t row) {
  if constexpr (bound_by_row<F>) {
    return f.at_row(row);
  } else {
    return user_bound<F>{f, row};
  }
}

/// What takes packs: it reads or writes arrays.
template <class Bound>
concept packable = requires(const Bound& bound) {
  Bound::pack_size;
  bound.in_packs();
};
template <class Bound>
inline constexpr int pack_size_of = 1;
template <packable Bound>
inline constexpr int pack_size_of<Bound> = Bound::pack_size;

/// A functor that touches no array, taken element by element.
template <class Bound, int Count>
struct packed_stage {
  const Bound& each;
  std::int64_t begin;
  TENON_BOTH packed_stage(const Bound& bound, std::int64_t column) : each(bound), begin(column) {}
  template <class V>
  TENON_BOTH V operator()(V value, int i) const {
    return each(value, begin + i);
  }
  TENON_BOTH void flush() const {}
};
template <packable Bound, int Count>
struct packed_stage<Bound, Count> : Bound::template packed<Count> {
  using Bound::template packed<Count>::packed;
};

/// A source and functors, all bound to a row.
template <class From, class... Stages>
struct bound_pipeline {
  From from;
  chain<Stages...> stages;

  static constexpr int pack = std::max({From::pack_size, pack_size_of<Stages>...});

  TENON_BOTH bool in_packs() const {
    bool all = from.in_packs();
    visit(stages, [&](const auto& each) {
      if constexpr (packable<std::remove_cvref_t<decltype(each)>>) all = all && each.in_packs();
    });
    return all;
  }
  TENON_BOTH void at(std::int64_t column) const {
    auto value = from(column);
    visit(stages, [&](const auto& each) { value = each(value, column); });
  }
  /// The columns column .. column + pack - 1: all is loaded before anything is stored.
  TENON_BOTH void pack_at(std::int64_t column) const {
    const typename From::template packed<pack> values(from, column);
    auto packed = mapped(stages, [=]<class Stage>(const Stage& each) {
      return packed_stage<Stage, pack>(each, column);
    });
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < pack; ++i) {
      auto value = values(i);
      visit(packed, [&](auto& each) { value = each(value, i); });
    }
    visit(packed, [](const auto& each) { each.flush(); });
  }
};
template <class From, std::size_t... Is, class... Stages>
TENON_BOTH bound_pipeline<From, Stages...> bound_together(
    const From& from, const links<std::index_sequence<Is...>, Stages...>& stages) {
  return {from, stages};
}

template <class F>
inline constexpr std::string_view name_of_stage = "functor";
template <class F>
requires requires { F::name; }
inline constexpr std::string_view name_of_stage<F> = F::name;

/// "read | add | write"; a zero follows.
template <class... Fs>
struct pipeline_name {
  static constexpr std::string_view bar = " | ";
  static constexpr std::size_t size =
      (name_of_stage<Fs>.size() + ...) + (sizeof...(Fs) - 1) * bar.size();
  static constexpr std::array<char, size + 1> text = [] {
    std::array<char, size + 1> all{};
    std::size_t at = 0;
    const auto put = [&](std::string_view part) {
      for (const char c : part) all[at++] = c;
    };
    ((put(at == 0 ? std::string_view() : bar), put(name_of_stage<Fs>)), ...);
    return all;
  }();
};

/// Columns that one program takes.
inline constexpr std::int64_t fuse_columns = 4096;

}  // namespace detail

namespace programs {

/// A part of a row of a pipeline.
template <class Source, class... Stages>
struct fused {
  static constexpr std::string_view name{detail::pipeline_name<Source, Stages...>::text.data(),
                                         detail::pipeline_name<Source, Stages...>::size};
  Source from;
  detail::chain<Stages...> stages;
  std::int64_t columns;

  template <class Team>
  TENON_BOTH void operator()(Team& team, std::int64_t i) const {
    const std::int64_t across = (columns + detail::fuse_columns - 1) / detail::fuse_columns;
    const std::int64_t row = i / across;
    const std::int64_t begin = i % across * detail::fuse_columns;
    const std::int64_t left = columns - begin;
    const std::int64_t count = left < detail::fuse_columns ? left : detail::fuse_columns;
    const auto all = detail::bound_together(
        from.at_row(row),
        detail::mapped(stages, [=](const auto& f) { return detail::bind_to_row(f, row); }));
    if constexpr (Team::size() == 1) {
      team.for_each(count, [all, begin](std::int64_t offset) { all.at(begin + offset); });
    } else {
      constexpr int each = decltype(all)::pack;
      const std::int64_t packs = all.in_packs() ? count / each : 0;
      team.for_each(packs, [&](std::int64_t p) { all.pack_at(begin + p * each); });
      const std::int64_t rest = packs * each;
      team.for_each(count - rest, [&](std::int64_t offset) { all.at(begin + rest + offset); });
    }
  }
};

}  // namespace programs
}  // namespace tenon::inline v0::kernel
