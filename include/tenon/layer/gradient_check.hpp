// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/base/random.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/gradient_report.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/tensor/random.hpp"

namespace tenon::inline v0 {

namespace detail {

// This rank's place among the ranks of all axes on which a placement is in some state.
struct place_among {
  std::int64_t coordinate = 0;
  std::int64_t extent = 1;
};
template <template <class> class Is, class P>
place_among place_where(const typename P::mesh_type& grid) {
  place_among place;
  for_each_axis(std::type_identity<typename P::mesh_type>{}, [&]<class A>(A) {
    if constexpr (Is<state_on_t<P, A>>::value) {
      place.extent *= grid.template extent<A>();
      place.coordinate =
          place.coordinate * grid.template extent<A>() + grid.template coordinate<A>();
    }
  });
  return place;
}
template <class S>
using is_partial_state = std::bool_constant<is_partial<S>>;
template <class S>
using is_replicated_state = std::is_same<S, replicated>;
template <class S>
using is_invariant_state = std::is_same<S, invariant>;

// What this rank counts for in a sum over all ranks in which an invariant value counts once. The
// shares add up to 1 and differ, so that a rank that holds another value than the rest is noticed.
template <class P>
double share_of(const typename P::mesh_type& grid) {
  const auto [coordinate, extent] = place_where<is_invariant_state, P>(grid);
  return 2.0 * static_cast<double>(coordinate + 1) / static_cast<double>(extent * (extent + 1));
}

template <class V, class F>
void for_each_tensor_of(V& value, F&& f) {
  if constexpr (is_tensor<std::remove_const_t<V>>) {
    f(value);
  } else {
    std::apply([&](auto&... parts) { (for_each_tensor_of(parts, f), ...); }, value);
  }
}
template <class V, class G, class F>
void for_each_tensor_and_gradient(V& value, G& gradient, F&& f) {
  if constexpr (is_tensor<V>) {
    if constexpr (!std::is_same_v<G, no_gradient>) f(value, gradient);
  } else {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (for_each_tensor_and_gradient(std::get<I>(value), std::get<I>(gradient), f), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<V>>());
  }
}
template <class V>
V cloned(const V& value) {
  if constexpr (is_tensor<V>) {
    return value.clone();
  } else {
    return std::apply([](const auto&... parts) { return V{cloned(parts)...}; }, value);
  }
}

template <class V>
inline constexpr bool is_fp64_or_constant = false;
template <class D, class P>
inline constexpr bool is_fp64_or_constant<tensor<fp64, D, P>> = true;
template <class D, class P>
inline constexpr bool is_fp64_or_constant<tensor<std::int32_t, D, constant<P>>> = true;
template <class... Vs>
inline constexpr bool is_fp64_or_constant<std::tuple<Vs...>> = (is_fp64_or_constant<Vs> && ...);

// Which values of a tensor move: one of all, or every one along a random direction.
struct direction {
  std::int64_t element = -1;  // of the whole tensor; -1: all
  random_stream random;
};

// A tensor of values that the check moves, and the gradient that backward gave for them.
struct movable {
  std::string name;
  std::int64_t elements = 0;
  std::span<double> values;
  std::span<const double> gradient;
  std::vector<std::int64_t> index = {};  // in the whole tensor, of each value here
  place_among term = {};                 // among the ranks whose terms are summed
  double share = 1;
  std::function<void()> publish = [] {};

  // How value i moves: a partial value by the term of one rank, all others alike on all ranks.
  double along(const direction& way, std::size_t i) const {
    if (way.element < 0) {
      return way.random.normal(index[i] * term.extent + term.coordinate) /
             std::sqrt(static_cast<double>(elements));
    }
    return index[i] == way.element && way.element % term.extent == term.coordinate ? 1 : 0;
  }
  // This rank's part of backward's slope.
  double slope(const direction& way) const {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += gradient[i] * along(way, i);
    return share * sum;
  }
  void move(const direction& way, double by) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += by * along(way, i);
    publish();
  }
};

template <class L, class In>
class gradient_checker {
  using layer_type = bound_to<L, In>;
  using output_type = typename layer_type::output_type;
  using mesh_type = mesh_of_value<In>;

 public:
  gradient_checker(ranks<mesh_type>& group, const dim_sizes& sizes,
                   const gradient_check_options& options)
      : group_(group),
        options_(options),
        state_{.seed = options.seed, .dropout = options.dropout},
        layer_(layer_context<mesh_type>{group, sizes, state_, shared_, "layer"}) {
    make_input(sizes);
    layer_.for_each_parameter([&](auto& parameter) { add_parameter(parameter); });
  }

  gradient_report run() {
    differentiate();
    gradient_report report;
    std::vector<double> worst(all_.size());
    double largest = 0;
    for (std::size_t t = 0; t < all_.size(); ++t) {
      gradient_difference found{all_[t].name, all_[t].elements};
      for (const direction& way : directions(all_[t])) {
        const double by_backward = sum_over_ranks(all_[t].slope(way));
        const double by_moving = moved(all_[t], way);
        const double apart = std::abs(by_backward - by_moving);
        worst[t] = std::isnan(apart) ? apart : std::max(worst[t], apart);
        found.largest_slope =
            std::max({found.largest_slope, std::abs(by_backward), std::abs(by_moving)});
      }
      largest = std::max(largest, found.largest_slope);
      report.all.push_back(found);
    }
    for (std::size_t t = 0; t < all_.size(); ++t) {
      const double scale = std::max(report.all[t].largest_slope, largest * 1e-3);
      report.all[t].difference = worst[t] == 0 ? 0 : worst[t] / scale;
    }
    return report;
  }

 private:
  void make_input(const dim_sizes& sizes) {
    int number = 0;
    for_each_tensor_of(input_, [&]<class E, class D, class P>(tensor<E, D, P>& x) {
      layout<D, P> where(sizes.of(D{}), group_.grid());
      for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
        using held = state_on_t<P, A>;
        if constexpr (is_sharded<held>) {
          if (sizes.template has_use<typename held::dim>()) {
            where = where.template with<A>(
                sizes.template use_of<typename held::dim>(group_.grid().template extent<A>()));
          }
        }
      });
      x = tensor<E, D, P>(group_, where);
      if constexpr (D::template has<batch>) state_.batch_begin = where.template of<batch>().begin;
      const random_stream stream(options_.seed, joined("input ", number++));
      const auto term = place_where<is_partial_state, states_of_t<P>>(group_.grid());
      for_each_global_index(x, [&](E& value, std::int64_t i) {
        if constexpr (std::is_same_v<E, fp64>) {
          value = stream.normal(i * term.extent + term.coordinate);
        } else {
          value =
              static_cast<E>(stream.bits(i) % static_cast<std::uint64_t>(options_.tokens_below));
        }
      });
    });
  }

  template <class E, class D, class Use, class Own>
  void add_parameter(parameter<E, D, Use, Own>& p) {
    any_parameter<fp64>& any = p;
    if (std::find(parameters_.begin(), parameters_.end(), &any) != parameters_.end()) return;
    parameters_.push_back(&any);
    p.place_gradient(std::make_shared<buffer<fp64>>(p.owned_elements()), 0);
    p.initialise(options_.seed);
    movable one{.name = p.declaration().name,
                .elements = p.global_elements(),
                .values = p.owned_values(),
                .gradient = p.owned_gradient(),
                .share = share_of<Own>(group_.grid()),
                .publish = [&p] { p.publish(); }};
    const random_stream noise(options_.seed, joined("noise of ", one.name));
    for_each_global_index(p.owned(), [&](fp64& value, std::int64_t i) {
      one.index.push_back(i);
      value += options_.parameter_deviation * noise.normal(i);
    });
    p.publish();
    all_.push_back(std::move(one));
  }

  // f(value, coefficient) for every value of the output here. The function that the check takes
  // the slope of is the sum of their products over ranks, an invariant value counted once. A value
  // that is replicated is used by each rank in its own way: with its own coefficients.
  template <class V, class F>
  void with_coefficients(V& output, F&& f) {
    int number = 0;
    for_each_tensor_of(output, [&]<class E, class D, class P>(tensor<E, D, P>& y) {
      const random_stream stream(options_.seed, joined("coefficients ", number++));
      const auto user = place_where<is_replicated_state, P>(group_.grid());
      for_each_global_index(y, [&, share = share_of<P>(group_.grid())](E& value, std::int64_t i) {
        f(value, stream.normal(i * user.extent + user.coordinate), share);
      });
    });
  }

  double value() {
    auto [output, saved] = layer_.forward(cloned(input_));
    double sum = 0;
    with_coefficients(output, [&](double& y, double coefficient, double share) {
      sum += share * coefficient * y;
    });
    return sum_over_ranks(sum);
  }

  // The gradients of all inputs and parameters, summed over ranks where their types say so.
  void differentiate() {
    for (auto* p : parameters_) p->begin_step();
    auto [output, saved] = layer_.forward(cloned(input_));
    output_type slopes = cloned(output);
    with_coefficients(slopes, [](double& y, double coefficient, double) { y = coefficient; });
    gradient_ = layer_.backward(as_gradient(slopes), std::move(saved));
    for (auto* p : parameters_) {
      p->gather_uses();
      if (communicator* line = p->lines({}).rest) add_up(*line, p->owned_gradient());
    }
    int number = 0;
    std::vector<movable> inputs;
    for_each_tensor_and_gradient(
        input_, gradient_,
        [&]<class E, class D, class P, class G>(tensor<E, D, P>& x, G& gradient) {
          require(gradient.where().regions() == x.where().regions(),
                  "gradient_check: backward gave a gradient with other pieces than the input's; "
                  "give it gradient_layout(x.where())");
          movable one{.name = joined("input ", number++),
                      .elements = x.global_shape().elements(),
                      .values = x.values(),
                      .gradient = gradient.values(),
                      .term = place_where<is_partial_state, P>(group_.grid()),
                      .share = share_of<P>(group_.grid())};
          for_each_global_index(x, [&](E&, std::int64_t i) { one.index.push_back(i); });
          inputs.push_back(std::move(one));
        });
    all_.insert(all_.begin(), inputs.begin(), inputs.end());
  }

  template <class V>
  static gradient_of_value<V> as_gradient(V& value) {
    if constexpr (is_tensor<V>) {
      return value.relabelled(gradient_layout(value.where()));
    } else {
      return std::apply([](auto&... parts) { return gradient_of_value<V>{as_gradient(parts)...}; },
                        value);
    }
  }

  std::vector<direction> directions(const movable& one) const {
    const random_stream random(options_.seed, joined("direction of ", one.name));
    std::vector<direction> ways;
    const permutation order(one.elements, random);
    for (std::int64_t i = 0; i < std::min(one.elements, options_.elements); ++i) {
      ways.push_back({order(i), random});
    }
    if (one.elements > 0) ways.push_back({-1, random});
    return ways;
  }

  double moved(movable& one, const direction& way) {
    const std::vector<double> before(one.values.begin(), one.values.end());
    one.move(way, options_.step);
    const double above = value();
    std::copy(before.begin(), before.end(), one.values.begin());
    one.move(way, -options_.step);
    const double below = value();
    std::copy(before.begin(), before.end(), one.values.begin());
    one.publish();
    return (above - below) / (2 * options_.step);
  }

  static void add_up(communicator& line, std::span<double> values) {
    line.call({.call = collective::all_reduce,
               .element = element_kind::fp64,
               .from = values.data(),
               .to = values.data(),
               .count = static_cast<std::int64_t>(values.size())},
              {.tensor = "gradient_check"}, call_site::here());
  }
  double sum_over_ranks(double mine) {
    add_up(group_.everyone(), std::span<double>(&mine, 1));
    return mine;
  }

  ranks<mesh_type>& group_;
  const gradient_check_options options_;
  run_state state_;
  shared_parameters shared_;
  layer_type layer_;
  In input_;
  gradient_of_value<In> gradient_;
  std::vector<any_parameter<fp64>*> parameters_;
  std::vector<movable> all_;
};

}  // namespace detail

/// Compares the backward of layer `L` for inputs of type `In` with central differences, in fp64.
/// The inputs [extents from `sizes`] are random; every input and parameter is moved as its
/// placement says: what all ranks hold alike moves on all, a piece on its owner, a partial value by
/// one rank's term. A sum over ranks that backward forgets, or does twice, is a difference.
///
/// Collective, and small: each value moved costs two forwards. Returns the same on all ranks.
/// Errors: those of the layer.
template <class L, class In>
gradient_report gradient_check(ranks<mesh_of_value<In>>& group, const dim_sizes& sizes,
                               const gradient_check_options& options = {}) {
  static_assert(
      detail::is_fp64_or_constant<In>,
      "gradient_check: the input is not in fp64, where finite differences mean something; "
      "give tensors of fp64 (and constant tokens of int32)");
  static_assert(layer_for<L, In>,
                "gradient_check: the layer has no forward and backward for this input; give it the "
                "members that the concept layer_for names");
  return detail::gradient_checker<L, In>(group, sizes, options).run();
}

/// The same on simulated ranks: threads of this process, one for each rank of the mesh.
template <class L, class In>
gradient_report gradient_check(const mesh_of_value<In>& grid, const dim_sizes& sizes,
                               const gradient_check_options& options = {}) {
  gradient_report report;
  simulate(grid.size(), [&](std::unique_ptr<transport> world) {
    ranks<mesh_of_value<In>> group(std::move(world), grid);
    gradient_report mine = gradient_check<L, In>(group, sizes, options);
    if (group.rank() == 0) report = std::move(mine);
  });
  return report;
}

}  // namespace tenon::inline v0
