// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "tenon/layer/concept.hpp"
#include "tenon/layer/loss.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/prices.hpp"
#include "tenon/layer/recomputable.hpp"
#include "tenon/memory/seen_by_host.hpp"

namespace tenon::inline v0 {

/// What some forward keeps for its backward, whatever its type.
class any_saved {
 public:
  virtual ~any_saved() = default;
};

namespace detail {

template <class T>
struct saved_value final : any_saved {
  explicit saved_value(T v) : value(std::move(v)) {}
  T value;
};
template <class T>
std::unique_ptr<any_saved> keep(T value) {
  return std::make_unique<saved_value<T>>(std::move(value));
}
template <class T>
T taken(std::unique_ptr<any_saved> saved) {
  return std::move(static_cast<saved_value<T>&>(*saved).value);
}

}  // namespace detail

/// What every layer of a model offers to trainers, schedules and optimizers, typed by nothing but
/// the element of master weights.
template <element Wide, class Mesh>
class any_part {
 public:
  virtual ~any_part() = default;
  using visitor = std::function<void(any_parameter<Wide>&)>;
  virtual void for_each_parameter(const visitor& f) = 0;
  /// Adds what one forward (one backward) sends, from types and sizes alone.
  virtual void add_forward_prices(prices_on<Mesh>& prices, const dim_sizes& sizes) const = 0;
  virtual void add_backward_prices(prices_on<Mesh>& prices, const dim_sizes& sizes) const = 0;
  /// False for lookups alone: their backward adds to the table's gradient and reads no weight.
  virtual bool backward_reads_weights() const { return true; }
};

/// A layer from a stream of activations to the same stream: the one border where types are erased.
/// Inside and at the border everything is typed; a model is a list of these, and trainers are made
/// once for each Stream, whatever layers a model has.
/// Thread-safety: none; a layer belongs to its rank's thread.
template <class Stream>
class any_layer : public any_part<wide<typename Stream::element_type>, typename Stream::mesh_type> {
  static_assert(std::is_same_v<gradient_of<Stream>, Stream>,
                "any_layer: the gradient of the stream is of another type; a stream is sharded or "
                "invariant on every axis");

 public:
  virtual std::pair<Stream, std::unique_ptr<any_saved>> forward(Stream x) = 0;
  virtual Stream backward(Stream gradient, std::unique_ptr<any_saved> saved) = 0;
};

/// Where a stream begins: from tokens, by lookups.
template <class Tokens, class Stream>
class any_first_layer
    : public any_part<wide<typename Stream::element_type>, typename Stream::mesh_type> {
 public:
  virtual std::pair<Stream, std::unique_ptr<any_saved>> forward(Tokens x) = 0;
  virtual void backward(Stream gradient, std::unique_ptr<any_saved> saved) = 0;
};

/// Where a stream ends: in logits, and in the sum of the losses of this rank's rows.
template <class Stream, class Targets, class Total>
class any_last_layer
    : public any_part<wide<typename Stream::element_type>, typename Stream::mesh_type> {
 public:
  virtual std::pair<Total, std::unique_ptr<any_saved>> forward(Stream x, Targets targets) = 0;
  /// The gradient of scale x (sum of losses).
  virtual Stream backward(double scale, std::unique_ptr<any_saved> saved) = 0;
  /// The logits of one row of this rank's first sequence, whole, on every rank of the axes that cut
  /// the vocabulary; a row below 0 is none. `logits` has room for all.
  virtual void logits_at(Stream x, std::int64_t row, std::span<float> logits) = 0;
};

namespace detail {

template <class Base, class Wide, class Mesh, class Bound>
class part_of_model : public Base {
 public:
  explicit part_of_model(Bound layer) : layer_(std::move(layer)) {}
  void for_each_parameter(const typename any_part<Wide, Mesh>::visitor& f) override {
    layer_.for_each_parameter([&](auto& parameter) { f(parameter); });
  }
  void add_forward_prices(prices_on<Mesh>& prices, const dim_sizes& sizes) const override {
    prices.add(typename Bound::forward_transfers{}, sizes, "forward");
  }
  void add_backward_prices(prices_on<Mesh>& prices, const dim_sizes& sizes) const override {
    prices.add(typename Bound::backward_transfers{}, sizes, "backward");
  }

 protected:
  Bound layer_;
};

template <class L, class Stream>
class erased_layer final
    : public part_of_model<any_layer<Stream>, wide<typename Stream::element_type>,
                           typename Stream::mesh_type, bound_to<L, Stream>> {
  using bound = bound_to<L, Stream>;
  static_assert(std::is_same_v<typename bound::output_type, Stream>,
                "any_layer: the layer does not give the stream that it takes; end it with the move "
                "that leads back to the stream's state");

  using part = part_of_model<any_layer<Stream>, wide<typename Stream::element_type>,
                             typename Stream::mesh_type, bound>;

 public:
  erased_layer(bound layer, const run_state& state) : part(std::move(layer)), state_(&state) {}

  std::pair<Stream, std::unique_ptr<any_saved>> forward(Stream x) override {
    if (state_->training && state_->recompute == recompute::block) {
      auto input = keep(x);
      return {this->layer_.forward(std::move(x)).first, std::move(input)};
    }
    auto [y, saved] = this->layer_.forward(std::move(x));
    return {std::move(y), keep(std::move(saved))};
  }
  Stream backward(Stream gradient, std::unique_ptr<any_saved> saved) override {
    if (state_->recompute == recompute::block) saved = forward_again(std::move(saved));
    return this->layer_.backward(std::move(gradient),
                                 taken<typename bound::saved_type>(std::move(saved)));
  }
  void add_backward_prices(prices_on<typename Stream::mesh_type>& prices,
                           const dim_sizes& sizes) const override {
    if (state_->recompute == recompute::block) {
      prices.add(typename bound::forward_transfers{}, sizes, "recompute");
    } else if (state_->recompute == recompute::attention) {
      prices.add(recomputed_transfers_of<bound>{}, sizes, "recompute");
    }
    part::add_backward_prices(prices, sizes);
  }

 private:
  std::unique_ptr<any_saved> forward_again(std::unique_ptr<any_saved> saved) {
    auto x = taken<Stream>(std::move(saved));
    const phase_scope inside(x.group().ledger(), "recompute");
    return keep(this->layer_.forward(std::move(x)).second);
  }

  const run_state* state_;
};

template <class L, class Tokens, class Stream>
class erased_first_layer final
    : public part_of_model<any_first_layer<Tokens, Stream>, wide<typename Stream::element_type>,
                           typename Stream::mesh_type, bound_to<L, Tokens>> {
  using bound = bound_to<L, Tokens>;
  static_assert(std::is_same_v<typename bound::output_type, Stream>,
                "any_first_layer: the layer does not give the stream; end it with the move that "
                "leads to the stream's state");

 public:
  using part_of_model<any_first_layer<Tokens, Stream>, wide<typename Stream::element_type>,
                      typename Stream::mesh_type, bound>::part_of_model;

  std::pair<Stream, std::unique_ptr<any_saved>> forward(Tokens x) override {
    auto [y, saved] = this->layer_.forward(std::move(x));
    return {std::move(y), keep(std::move(saved))};
  }
  void backward(Stream gradient, std::unique_ptr<any_saved> saved) override {
    this->layer_.backward(std::move(gradient), taken<typename bound::saved_type>(std::move(saved)));
  }
  bool backward_reads_weights() const override { return false; }
};

// Layers that end in logits, and the loss behind them.
template <class L, class Loss>
struct with_loss {
  template <class Stream>
  class bound {
    using inner = bound_to<L, Stream>;
    using logits = typename inner::output_type;
    using loss = bound_to<Loss, logits>;

   public:
    using targets_type = typename loss::targets_type;
    using total_type = typename loss::total_type;
    using saved_type = std::pair<typename inner::saved_type, typename loss::saved_type>;
    using forward_transfers =
        joined_transfers<typename inner::forward_transfers, typename loss::forward_transfers>;
    using backward_transfers =
        joined_transfers<typename loss::backward_transfers, typename inner::backward_transfers>;

    explicit bound(const layer_context<typename Stream::mesh_type>& context)
        : layer_(context), loss_(context.child("loss")) {}

    std::pair<total_type, saved_type> forward(Stream x, targets_type targets) {
      auto [y, saved] = layer_.forward(std::move(x));
      auto [total, kept] = loss_.forward(std::move(y), std::move(targets));
      return {std::move(total), saved_type(std::move(saved), std::move(kept))};
    }
    Stream backward(double scale, saved_type saved) {
      return layer_.backward(loss_.backward(scale, std::move(saved.second)),
                             std::move(saved.first));
    }
    logits logits_of(Stream x) { return layer_.forward(std::move(x)).first; }
    template <class F>
    void for_each_parameter(F&& f) {
      layer_.for_each_parameter(f);
    }

   private:
    inner layer_;
    loss loss_;
  };
};

template <class L, class Stream>
class erased_last_layer final
    : public part_of_model<any_last_layer<Stream, typename bound_to<L, Stream>::targets_type,
                                          typename bound_to<L, Stream>::total_type>,
                           wide<typename Stream::element_type>, typename Stream::mesh_type,
                           bound_to<L, Stream>> {
  using bound = bound_to<L, Stream>;

 public:
  using part_of_model<
      any_last_layer<Stream, typename bound::targets_type, typename bound::total_type>,
      wide<typename Stream::element_type>, typename Stream::mesh_type, bound>::part_of_model;

  std::pair<typename bound::total_type, std::unique_ptr<any_saved>> forward(
      Stream x, typename bound::targets_type targets) override {
    auto [total, saved] = this->layer_.forward(std::move(x), std::move(targets));
    return {std::move(total), keep(std::move(saved))};
  }
  Stream backward(double scale, std::unique_ptr<any_saved> saved) override {
    return this->layer_.backward(scale, taken<typename bound::saved_type>(std::move(saved)));
  }
  void logits_at(Stream x, std::int64_t row, std::span<float> logits) override {
    auto whole = gathered(this->layer_.logits_of(std::move(x)));
    const auto m = std::as_const(whole).matrix();
    if (m.data == nullptr || row < 0 || row >= m.rows) return;
    using element_type = typename Stream::element_type;
    const seen_by_host<element_type> seen(
        std::span<const element_type>(m.row(row), static_cast<std::size_t>(m.columns)));
    for (std::size_t j = 0; j < seen.values().size(); ++j) {
      logits[j] = static_cast<float>(seen.values()[j]);
    }
  }

 private:
  // The vocabulary, whole, on each rank.
  template <class T>
  static auto gathered(T logits) {
    using P = typename T::placement_type;
    return gather_vocabulary<typename P::mesh_type>(std::move(logits));
  }
  template <class Mesh, class T>
  static auto gather_vocabulary(T x) {
    return [&]<class... Axes>(std::type_identity<mesh<Axes...>>) {
      return gather_over<Axes...>(std::move(x));
    }(std::type_identity<Mesh>{});
  }
  template <class First, class... Rest, class T>
  static auto gather_over(T x) {
    if constexpr (cuts<state_on_t<typename T::placement_type, First>, vocabulary>) {
      auto y = redistribute<First, replicated>(std::move(x), "logits");
      if constexpr (sizeof...(Rest) == 0) {
        return y;
      } else {
        return gather_over<Rest...>(std::move(y));
      }
    } else if constexpr (sizeof...(Rest) == 0) {
      return x;
    } else {
      return gather_over<Rest...>(std::move(x));
    }
  }
};

}  // namespace detail

/// Makes a layer that takes and gives the stream from its description.
template <class L, class Stream>
std::unique_ptr<any_layer<Stream>> make_layer(
    const layer_context<typename Stream::mesh_type>& context) {
  return std::make_unique<detail::erased_layer<L, Stream>>(bound_to<L, Stream>(context),
                                                           context.state);
}

}  // namespace tenon::inline v0
