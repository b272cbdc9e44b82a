// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/layer/context.hpp"
#include "tenon/placement/propagate.hpp"
#include "tenon/placement/traffic.hpp"
#include "tenon/tensor/random.hpp"
#include "tenon/tensor/redistribute.hpp"
#include "tenon/tensor/spread.hpp"

namespace tenon::inline v0 {

/// What a parameter is for. Weight decay is for matrices alone.
enum class parameter_role : std::uint8_t { matrix, bias, gain };

/// The initial values: a constant, or normal values with mean 0.
struct initial_values {
  double constant = 0;
  double deviation = 0;

  static constexpr initial_values normal(double deviation) { return {0, deviation}; }
  static constexpr initial_values all(double value) { return {value, 0}; }
};

/// The one declaration of a parameter besides its dims and placements, which are its type. What the
/// gradient is summed over, its share of the norm, its decay, its random stream and its slice in a
/// checkpoint follow from it.
struct parameter_declaration {
  std::string name;
  parameter_role role = parameter_role::matrix;
  initial_values initial{};
};

namespace detail {

template <class P>
struct find_owner_placement;
template <class... Ons>
struct find_owner_placement<placement<Ons...>> {
  template <class S>
  using owned = std::conditional_t<is_sharded<S>, S, invariant>;
  using type = placement<on<typename Ons::axis, owned<typename Ons::held>>...>;
};

}  // namespace detail

/// The owner placement of a parameter whose use is `Use`: a cut stays a cut, and what all ranks
/// hold alike is invariant.
template <class Use>
using owner_placement = typename detail::find_owner_placement<Use>::type;

/// A parameter as trainers, optimizers and checkpoints see it: its owned piece and the owned piece
/// of its gradient, whatever its dims and placements. `Wide` is the element of master weights.
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class any_parameter {
 public:
  virtual ~any_parameter() = default;

  virtual const parameter_declaration& declaration() const = 0;
  virtual std::int64_t global_elements() const = 0;
  virtual std::int64_t owned_elements() const = 0;
  /// Elements that this rank uses in its products; more than it owns where it is spread.
  virtual std::int64_t used_elements() const = 0;
  /// "vocabulary, hidden" and the placements, for tables and messages.
  virtual std::string dims_text() const = 0;
  virtual std::string owner_text() const = 0;
  virtual std::string use_text() const = 0;
  /// The global extents and this rank's owned regions, dim by dim.
  virtual std::vector<std::int64_t> extents() const = 0;
  virtual std::vector<region> owned_regions() const = 0;
  /// True on the ranks whose owned piece enters sums over all ranks: an invariant one is counted at
  /// coordinate 0 alone.
  virtual bool counted_here() const = 0;

  virtual std::span<Wide> owned_values() = 0;
  virtual std::span<Wide> owned_gradient() = 0;
  /// Where the optimizer writes the rounded copy that products use; empty when they use the owned
  /// values, or when `publish` must convert and send.
  virtual std::span<bf16> rounded_copy() = 0;

  /// The communicators over which the gradient is partial, from the types of owner and use.
  virtual std::vector<communicator*> partial_over() = 0;
  /// Gives the owned gradient its memory: `owned_elements` values from `begin`.
  virtual void place_gradient(std::shared_ptr<buffer<Wide>> memory, std::int64_t begin) = 0;
  virtual void begin_step() = 0;
  /// Brings what backward has summed of a spread use to the owners. After it the owned gradient is
  /// still partial on `partial_over`.
  virtual void gather_uses() = 0;
  /// Makes the use from the owned values: after they were set or stepped.
  virtual void publish() = 0;
  virtual void initialise(std::uint64_t seed) = 0;

  /// Bytes that spread and its backward send for this rank, in the use's and the wide element.
  virtual std::int64_t spread_bytes_forward() const = 0;
  virtual std::int64_t spread_bytes_backward() const = 0;
  /// The axis over which the use is spread; empty when it is not.
  virtual std::string spread_axis() const = 0;
};

/// A parameter of dims `Dims` that products use in element `E` under placement `Use` and that the
/// ranks own under `Own`: sharded or invariant on every axis. Its gradient is accumulated over
/// microbatches in the wide element, in the placement of the use's gradient.
///
///   own --publish (move of the table, or spread)--> use --products--> gradient of use
///    ^                                                                     |
///    '--- optimizer <--- gradient in owner placement <--- reduce ----------'
///
/// Thread-safety: none; it belongs to one rank's thread.
template <element E, class Dims, class Use, class Own = owner_placement<Use>>
class parameter final : public any_parameter<wide<E>> {
  static_assert(is_owner_placement<Own>,
                "parameter: the owner placement is not sharded or invariant on every axis; each "
                "element must belong to one rank of each axis, or to all alike");
  static_assert(
      std::is_same_v<Own, owner_placement<Use>>,
      "parameter: the use cannot be made from the owner placement; own what the use cuts, "
      "and the rest as invariant");
  static_assert(
      cuts_only<Use, Dims>,
      "parameter: an axis cuts a dim that the parameter does not have; cut one of its dims");

 public:
  using master = wide<E>;
  using use_type = tensor<E, Dims, Use>;
  using owned_type = tensor<master, Dims, Own>;
  using gradient_type = tensor<master, Dims, gradient_placement<Use>>;
  using owned_gradient_type = tensor<master, Dims, Own>;
  using mesh_type = typename Use::mesh_type;
  static constexpr bool converts = !std::is_same_v<E, master>;

  parameter(const layer_context<mesh_type>& context, parameter_declaration declared)
      : declared_(std::move(declared)),
        owned_(context.group, layout<Dims, Own>(context.sizes.of(Dims{}), context.group.grid())),
        use_where_(context.sizes.of(Dims{}), context.group.grid()) {
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      using held = state_on_t<Use, A>;
      if constexpr (is_sharded<held>) {
        using dim = typename held::dim;
        if (context.sizes.template has_use<dim>()) {
          const auto use =
              context.sizes.template use_of<dim>(context.group.grid().template extent<A>());
          if (use != owned_.where().template partition_on<A>()) {
            require(!is_spread_, "parameter ", declared_.name,
                    ": it would be spread on two axes; spread it on one");
            use_where_ = use_where_.template with<A>(use);
            is_spread_ = true;
            spread_axis_ = A::name;
          }
        }
      }
    });
    if constexpr (converts) {
      use_ = use_type(context.group, use_where_);
    }
  }

  /// The weights as products take them; valid after `publish`.
  const use_type& use() const noexcept { return use_; }
  /// Where backward adds up the gradient of the use.
  gradient_type& gradient() noexcept { return gradient_; }
  owned_type& owned() noexcept { return owned_; }

  const parameter_declaration& declaration() const override { return declared_; }
  std::int64_t global_elements() const override { return owned_.global_shape().elements(); }
  std::int64_t owned_elements() const override { return owned_.elements(); }
  std::int64_t used_elements() const override { return use_where_.elements(); }
  std::string dims_text() const override { return Dims::text(); }
  std::string owner_text() const override { return Own::text(); }
  std::string use_text() const override { return Use::text(); }
  std::vector<std::int64_t> extents() const override {
    const auto& all = owned_.global_shape().extents;
    return {all.begin(), all.end()};
  }
  std::vector<region> owned_regions() const override {
    const auto& all = owned_.where().regions();
    return {all.begin(), all.end()};
  }
  bool counted_here() const override {
    bool counted = true;
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      if constexpr (std::is_same_v<state_on_t<Own, A>, invariant>) {
        counted = counted && owned_.group().grid().template coordinate<A>() == 0;
      }
    });
    return counted;
  }

  std::span<master> owned_values() override { return owned_.values(); }
  std::span<master> owned_gradient() override { return owned_gradient_.values(); }
  std::span<bf16> rounded_copy() override {
    if constexpr (converts) {
      if (!is_spread_) return use_.values();
    }
    return {};
  }

  std::vector<communicator*> partial_over() override {
    std::vector<communicator*> lines;
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      // replicated in use, invariant in ownership: the backward of that move is an all-reduce.
      if constexpr (std::is_same_v<state_on_t<Use, A>, replicated>) {
        auto& line = owned_.group().template on<A>();
        if (line.size() > 1) lines.push_back(&line);
      }
    });
    return lines;
  }

  void place_gradient(std::shared_ptr<buffer<master>> memory, std::int64_t begin) override {
    owned_gradient_ = owned_gradient_type(owned_.group(), owned_.where(), std::move(memory), begin);
    if (!is_spread_) {
      gradient_ = owned_gradient_.relabelled(gradient_layout(use_where_));
    }
  }

  void begin_step() override {
    if (is_spread_) {
      gradient_ = gradient_type::zeros(owned_.group(), gradient_layout(use_where_));
    } else {
      gradient_.fill_with_zeros();
    }
  }

  void gather_uses() override {
    if (!is_spread_) return;
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      if constexpr (is_sharded<state_on_t<Use, A>>) {
        if (spread_axis_ != A::name) return;
        const auto owned =
            sum_to_owners<A>(gradient_, owned_.where().template partition_on<A>(), declared_.name);
        copy_values(owned.values(), owned_gradient_.values());
      }
    });
    gradient_ = {};
  }

  void publish() override {
    if (!is_spread_) {
      if constexpr (converts) {
        round_values(owned_.values(), use_.values());
      } else {
        use_ = owned_.relabelled(use_where_);
      }
      return;
    }
    tensor<E, Dims, Own> rounded = rounded_owned();
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      if constexpr (is_sharded<state_on_t<Use, A>>) {
        if (spread_axis_ != A::name) return;
        use_ = spread_to<A>(rounded, use_where_.template partition_on<A>(), declared_.name)
                   .relabelled(use_where_);
      }
    });
  }

  void initialise(std::uint64_t seed) override {
    if (declared_.initial.deviation > 0) {
      fill_normal(owned_, random_stream(seed, declared_.name), declared_.initial.deviation);
    } else {
      fill(owned_, declared_.initial.constant);
    }
    publish();
  }

  std::int64_t spread_bytes_forward() const override {
    return spread_elements() * static_cast<std::int64_t>(sizeof(E));
  }
  std::int64_t spread_bytes_backward() const override {
    return uses_sent_back() * static_cast<std::int64_t>(sizeof(master));
  }
  std::string spread_axis() const override { return spread_axis_; }

 private:
  static void copy_values(std::span<const master> from, std::span<master> to) {
    std::copy(from.begin(), from.end(), to.begin());
  }
  static void round_values(std::span<const master> from, std::span<E> to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = E(from[i]);
  }

  tensor<E, Dims, Own> rounded_owned() {
    if constexpr (converts) {
      tensor<E, Dims, Own> rounded(owned_.group(), owned_.where());
      round_values(owned_.values(), rounded.values());
      return rounded;
    } else {
      return owned_;
    }
  }

  // Forward a rank sends what others use of its own pieces; backward it sends back what it used of
  // theirs.
  std::int64_t spread_elements() const {
    std::int64_t sent = 0;
    visit_spread([&](const partition& own, const partition& use, int me, std::int64_t others) {
      for (int r = 0; r < own.parts(); ++r) {
        if (r != me) sent += intersection(own.of(me), use.of(r)).size * others;
      }
    });
    return sent;
  }
  std::int64_t uses_sent_back() const {
    std::int64_t sent = 0;
    visit_spread([&](const partition& own, const partition& use, int me, std::int64_t others) {
      sent = (use.of(me).size - intersection(own.of(me), use.of(me)).size) * others;
    });
    return sent;
  }
  template <class F>
  void visit_spread(F&& f) const {
    if (!is_spread_) return;
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      using held = state_on_t<Use, A>;
      if constexpr (is_sharded<held>) {
        if (spread_axis_ != A::name) return;
        constexpr std::size_t d = Dims::template position<typename held::dim>;
        std::int64_t others = 1;
        for (std::size_t i = 0; i < Dims::size; ++i) {
          if (i != d) others *= use_where_.regions()[i].size;
        }
        f(owned_.where().template partition_on<A>(), use_where_.template partition_on<A>(),
          use_where_.grid().template coordinate<A>(), others);
      }
    });
  }

  parameter_declaration declared_;
  owned_type owned_;
  layout<Dims, Use> use_where_;
  use_type use_;
  gradient_type gradient_;
  owned_gradient_type owned_gradient_;
  bool is_spread_ = false;
  std::string spread_axis_;
};

}  // namespace tenon::inline v0
