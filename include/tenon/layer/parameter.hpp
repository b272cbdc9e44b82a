// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/kernel/flat.hpp"
#include "tenon/layer/any_parameter.hpp"
#include "tenon/layer/context.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/placement/propagate.hpp"
#include "tenon/placement/traffic.hpp"
#include "tenon/tensor/random.hpp"
#include "tenon/tensor/redistribute.hpp"
#include "tenon/tensor/spread.hpp"

namespace tenon::inline v0 {

/// A parameter of dims `Dims` that products use in element `E` under placement `Use` and that the
/// ranks own under `Own`: sharded or invariant on every axis. Its gradient is accumulated over
/// microbatches in the wide element, in the placement of the use's gradient. It holds its values
/// from `initialise`, or the first call of `owned`, on.
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
  using piece_type = tensor<E, Dims, Own>;
  using owned_type = tensor<master, Dims, Own>;
  using gradient_type = tensor<master, Dims, gradient_placement<Use>>;
  using mesh_type = typename Use::mesh_type;
  static constexpr bool converts = !std::is_same_v<E, master>;

  parameter(const layer_context<mesh_type>& context, parameter_declaration declared)
      : declared_(std::move(declared)),
        group_(&context.group),
        owned_where_(context.sizes.of(Dims{}), context.group.grid()),
        use_where_(context.sizes.of(Dims{}), context.group.grid()) {
    this->part_ = {0, owned_where_.elements()};
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      using held = state_on_t<Use, A>;
      if constexpr (is_sharded<held>) {
        using dim = typename held::dim;
        if (context.sizes.template has_use<dim>()) {
          const auto use =
              context.sizes.template use_of<dim>(context.group.grid().template extent<A>());
          if (use != owned_where_.template partition_on<A>()) {
            require(!is_spread_, "parameter ", declared_.name,
                    ": it would be spread on two axes; spread it on one");
            use_where_ = use_where_.template with<A>(use);
            is_spread_ = true;
            spread_axis_ = A::name;
          }
        }
      } else if constexpr (std::is_same_v<state_on_t<Own, A>, invariant>) {
        const bool first = group_->grid().template coordinate<A>() == 0;
        this->counted_ = this->counted_ && first;
        if (std::is_same_v<held, invariant>) first_of_alike_ = first_of_alike_ && first;
      }
    });
  }

  /// The weights as products take them; valid after `publish` or `make_use`.
  const use_type& use() const noexcept { return use_; }
  /// Where backward adds up the gradient of the use.
  gradient_type& gradient() noexcept { return gradient_; }
  /// The values of the piece, all owned: of a parameter that no shards cut.
  owned_type& owned() {
    if (!owned_.holds_memory()) owned_ = owned_type(*group_, owned_where_);
    return owned_;
  }

  const layout<Dims, Own>& owned_where() const noexcept { return owned_where_; }

  const parameter_declaration& declaration() const override { return declared_; }
  std::int64_t global_elements() const override { return owned_where_.global().elements(); }
  std::int64_t piece_elements() const override { return owned_where_.elements(); }
  std::int64_t used_elements() const override { return use_where_.elements(); }
  std::string dims_text() const override { return Dims::text(); }
  std::string owner_text() const override { return Own::text(); }
  std::string use_text() const override { return Use::text(); }
  std::vector<std::int64_t> extents() const override {
    const auto& all = owned_where_.global().extents;
    return {all.begin(), all.end()};
  }
  std::vector<region> piece_regions() const override {
    const auto& all = owned_where_.regions();
    return {all.begin(), all.end()};
  }

  std::span<master> owned_values() override {
    return keeps_part_ ? part_values_.span() : owned().values();
  }
  std::span<master> owned_gradient() override {
    if (part_gradient_ == nullptr || part_gradient_->data() == nullptr) return {};
    return part_gradient_->span().subspan(static_cast<std::size_t>(part_gradient_begin_),
                                          static_cast<std::size_t>(this->part_.size));
  }
  std::span<bf16> rounded_copy() override {
    if constexpr (converts) {
      if (!is_spread_ && !keeps_part_) return use_.values();
    }
    return {};
  }

  reduction_lines lines(shard_choice shards) override {
    axis_mask all = 0;      // replicated in use, invariant in ownership: backward is a sum
    axis_mask divided = 0;  // those of them that share a batch
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      if constexpr (std::is_same_v<state_on_t<Use, A>, replicated>) {
        all |= ranks<mesh_type>::template mask_of<A>();
        if constexpr (is_part_of<A, axis::data> || std::is_same_v<A, axis::expert>) {
          divided |= ranks<mesh_type>::template mask_of<A>();
        }
      }
    });
    const auto longer_than_one = [](communicator& line) {
      return line.size() > 1 ? &line : nullptr;
    };
    if (all == 0) return {};
    if (!shards.cut || divided == 0) return {nullptr, longer_than_one(group_->along(all))};
    auto inside = group_->places(divided);
    auto outside = group_->places(all & ~divided);
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (shards.data_extent == 0 || !inside[i].inside || inside[i].name != axis::data::name) {
        continue;
      }
      require(inside[i].extent % shards.data_extent == 0, "shards: ", shards.data_extent,
              " ranks do not divide the data axis of ", inside[i].extent);
      divide(inside, i, shards.data_extent, false, true);
      divide(outside, i, shards.data_extent, true, false);
      break;
    }
    return {longer_than_one(group_->along(inside)), longer_than_one(group_->along(outside))};
  }
  element_kind use_element() const override { return kind_of<E>; }

  void keep_part(region part, bool first) override {
    keeps_part_ = true;
    this->part_ = part;
    this->counted_ = first && first_of_alike_;
    owned_ = {};
    part_values_ = buffer<master>(part.size);
  }
  void round_part(void* to) override {
    const auto from = owned_values();
    kernel::convert(std::span(static_cast<E*>(to), from.size()), from);
  }
  void set_part(const void* from) override {
    const auto to = owned_values();
    kernel::convert(to, std::span(static_cast<const E*>(from), to.size()));
  }
  void place_weights(std::shared_ptr<void> memory, void* values) override {
    use_ = {};
    if (memory == nullptr) {
      piece_ = {};
    } else {
      piece_ = piece_type(*group_, owned_where_, std::move(memory), values);
    }
  }
  void make_use() override {
    if (!is_spread_) {
      use_ = piece_.relabelled(use_where_);
      return;
    }
    for_each_axis(std::type_identity<mesh_type>{}, [&]<class A>(A) {
      if constexpr (is_sharded<state_on_t<Use, A>>) {
        if (spread_axis_ != A::name) return;
        use_ = spread_to<A>(piece_, use_where_.template partition_on<A>(), declared_.name)
                   .relabelled(use_where_);
      }
    });
  }
  void publish() override {
    if constexpr (!converts) {
      piece_ = owned();
      make_use();
      if (is_spread_) piece_ = {};
    } else if (is_spread_) {
      piece_ = piece_type(*group_, owned_where_);
      round_part(piece_.data());
      make_use();
      piece_ = {};
    } else {
      if (!use_.holds_memory()) use_ = use_type(*group_, use_where_);
      round_part(use_.data());
    }
  }
  /// With the values that the piece has in every layout; of a part, that part of them.
  void initialise(std::uint64_t seed) override {
    owned_type whole = keeps_part_ ? owned_type(*group_, owned_where_) : owned();
    if (declared_.initial.deviation > 0) {
      fill_normal(whole, random_stream(seed, declared_.name), declared_.initial.deviation);
    } else {
      fill(whole, declared_.initial.constant);
    }
    if (!keeps_part_) return publish();
    if (shapes_only::active()) return;
    copy_bytes(part_values_.data(), whole.data() + this->part_.begin, part_values_.bytes());
  }

  void place_gradient(std::shared_ptr<buffer<master>> memory, std::int64_t begin) override {
    if (memory == nullptr) {
      piece_gradient_ = {};
      gradient_ = {};
      return;
    }
    if (!keeps_part_) place_owned_gradient(memory, begin);
    piece_gradient_ = owned_type(*group_, owned_where_, std::move(memory), begin);
    if (!is_spread_) gradient_ = piece_gradient_.relabelled(gradient_layout(use_where_));
  }
  void place_owned_gradient(std::shared_ptr<buffer<master>> memory, std::int64_t begin) override {
    part_gradient_ = std::move(memory);
    part_gradient_begin_ = begin;
  }
  void begin_step() override {
    if (is_spread_) {
      gradient_ = gradient_type::zeros(*group_, gradient_layout(use_where_));
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
            sum_to_owners<A>(gradient_, owned_where_.template partition_on<A>(), declared_.name);
        copy_bytes(piece_gradient_.data(), owned.data(),
                   owned.elements() * static_cast<std::int64_t>(sizeof(master)));
      }
    });
    gradient_ = {};
  }

  std::int64_t spread_bytes_forward() const override {
    return spread_elements() * static_cast<std::int64_t>(sizeof(E));
  }
  std::int64_t spread_bytes_backward() const override {
    return uses_sent_back() * static_cast<std::int64_t>(sizeof(master));
  }
  std::string spread_axis() const override { return spread_axis_; }

 private:
  // The place on the data axis becomes two, outer first; what was one has no name any more.
  static void divide(std::vector<axis_place>& places, std::size_t i, int inner, bool outer_inside,
                     bool inner_inside) {
    const axis_place whole = places[i];
    places[i] = {axis::data_replicate::name, whole.coordinate / inner, whole.extent / inner,
                 outer_inside};
    places.insert(places.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  {whole.extent == inner ? axis::data::name : axis::data_shard::name,
                   whole.coordinate % inner, inner, inner_inside});
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
        f(owned_where_.template partition_on<A>(), use_where_.template partition_on<A>(),
          use_where_.grid().template coordinate<A>(), others);
      }
    });
  }

  parameter_declaration declared_;
  ranks<mesh_type>* group_;
  layout<Dims, Own> owned_where_;
  layout<Dims, Use> use_where_;
  owned_type owned_;  // the piece's values, where all are owned
  bool keeps_part_ = false;
  buffer<master> part_values_;  // where a part is
  piece_type piece_;            // as products take them, before they are spread
  use_type use_;
  owned_type piece_gradient_;
  gradient_type gradient_;
  std::shared_ptr<buffer<master>> part_gradient_;
  std::int64_t part_gradient_begin_ = 0;
  bool is_spread_ = false;
  bool first_of_alike_ = true;  // on the axes where all ranks do the same
  std::string spread_axis_;
};

}  // namespace tenon::inline v0
