// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/kernel/attention.hpp"
#include "tenon/kernel/rotary.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/dropout.hpp"

namespace tenon::inline v0 {

namespace detail {

// Whether keys and values placed by K fit queries placed by Q: on each axis both cut their heads,
// or both are in one state.
template <class Q, class K, class Mesh = typename Q::mesh_type>
inline constexpr bool heads_match = false;
template <class Q, class K, class... Axes>
inline constexpr bool heads_match<Q, K, mesh<Axes...>> =
    ((cuts<state_on_t<Q, Axes>, heads>
          ? cuts<state_on_t<K, Axes>, kv_heads>
          : std::is_same_v<state_on_t<Q, Axes>, state_on_t<K, Axes>>)&&...);

template <class In>
struct attention_input {
  static_assert(!is_tensor<In> && std::tuple_size_v<In> == 3,
                "attention: the input is not the three tensors query, key and value");
  using query_type = std::tuple_element_t<0, In>;
  using key_type = std::tuple_element_t<1, In>;
  static_assert(std::is_same_v<key_type, std::tuple_element_t<2, In>>,
                "attention: key and value are of different types; place both alike");
  using Q = typename query_type::placement_type;
  using K = typename key_type::placement_type;
  static_assert(
      std::is_same_v<typename query_type::dims_type, dims<batch, sequence, heads, head_width>> &&
          std::is_same_v<typename key_type::dims_type, dims<batch, sequence, kv_heads, head_width>>,
      "attention: the dims are not batch, sequence, heads (kv_heads), head_width");
  static_assert(
      !any_partial<Q> && !any_partial<K>,
      "attention: a function that is not linear was given a sum that is still to be done; "
      "reduce it first");
  static_assert(!any_cut_of<Q, sequence> && !any_cut_of<K, sequence>,
                "attention: the sequence is cut by an axis, and attention reads all keys; exchange "
                "it first: redistributed<axis, replicated>");
  static_assert(!any_cut_of<Q, head_width> && !any_cut_of<K, head_width>,
                "attention: the width of the heads is cut, and a score reads all of it; cut the "
                "heads");
  static_assert(heads_match<Q, K>,
                "attention: query and key are placed differently; cut heads and kv_heads on the "
                "same axis and the rest alike");
};

}  // namespace detail

/// Turns queries and keys by their positions (rotary positions); values pass. The angles are in
/// fp32 at least.
/// Source: J. Su and others, RoFormer, 2021.
struct rotary_positions {
  template <class In>
  class bound : public without_parameters, public without_transfers {
    using checked = detail::attention_input<In>;
    using E = typename checked::query_type::element_type;
    using angles = kernel::rotary_angles<wide<E>>;

   public:
    using output_type = In;
    struct saved_type {};

    explicit bound(const layer_context<typename checked::query_type::mesh_type>&) {}

    std::pair<output_type, saved_type> forward(In x) {
      prepare(std::get<0>(x));
      turn(std::get<0>(x), kernel::rotation::forward);
      turn(std::get<1>(x), kernel::rotation::forward);
      return {std::move(x), saved_type{}};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, saved_type) {
      turn(std::get<0>(gradient), kernel::rotation::backward);
      turn(std::get<1>(gradient), kernel::rotation::backward);
      return gradient;
    }

   private:
    template <class T>
    void prepare(const T& q) {
      const auto length = q.template extent<sequence>();
      const auto width = q.template extent<head_width>();
      if (angles_ != nullptr && angles_->count == length && angles_->head_width == width) return;
      angles_ = std::make_shared<angles>(
          kernel::make_angles<wide<E>>(q.where().template of<sequence>().begin, length, width));
    }
    template <class T>
    void turn(T& x, kernel::rotation way) {
      if (!x.only_holder()) x = x.clone();
      kernel::rotate(x.template matrix<2>(), *angles_, way);
    }

    std::shared_ptr<angles> angles_;
  };
};

/// Causal attention: from query, key and value, softmax(q k^T / sqrt(width)) v for each head. There
/// may be fewer kv heads than heads: head h reads kv head h / (heads / kv_heads). With dropout, the
/// probabilities are dropped as a function of their global place.
/// Sources: A. Vaswani and others, Attention is all you need, 2017; J. Ainslie and others, GQA,
/// 2023; T. Dao and others, FlashAttention, 2022.
struct causal_attention {
  template <class In>
  class bound : public without_parameters, public without_transfers {
    using checked = detail::attention_input<In>;
    using query_type = typename checked::query_type;
    using key_type = typename checked::key_type;
    using E = typename query_type::element_type;
    using W = wide<E>;

   public:
    using output_type = query_type;
    struct saved_type {
      In x;
      query_type o;
      buffer<W> log_sum_exp;  // [batch, heads, sequence]
      kernel::attention_dropout drop;
    };

    explicit bound(const layer_context<typename query_type::mesh_type>& context)
        : name_(context.name + ".probabilities"), state_(&context.state) {}

    std::pair<output_type, saved_type> forward(In x) {
      const auto& [q, k, v] = x;
      query_type o(q.group(), q.where());
      saved_type saved{{},
                       o,
                       buffer<W>(q.template extent<batch>() * q.template extent<heads>() *
                                 q.template extent<sequence>()),
                       drop_of(q)};
      const std::vector<int> kv_of_head = reads(q, k);
      kernel::attention(o.template matrix<2>(), saved.log_sum_exp.span(), q.template matrix<2>(),
                        k.template matrix<2>(), v.template matrix<2>(),
                        shape_of(q, k, kv_of_head, saved.drop));
      saved.x = std::move(x);
      return {std::move(o), std::move(saved)};
    }
    gradient_of_value<In> backward(gradient_of_value<query_type> gradient, saved_type saved) {
      const auto& [q, k, v] = saved.x;
      gradient_of_value<query_type> dq(q.group(), gradient_layout(q.where()));
      gradient_of_value<key_type> dk(k.group(), gradient_layout(k.where()));
      gradient_of_value<key_type> dv(v.group(), gradient_layout(v.where()));
      const std::vector<int> kv_of_head = reads(q, k);
      kernel::attention_backward(
          dq.template matrix<2>(), dk.template matrix<2>(), dv.template matrix<2>(),
          std::as_const(gradient).template matrix<2>(), q.template matrix<2>(),
          k.template matrix<2>(), v.template matrix<2>(),
          std::as_const(saved.o).template matrix<2>(), saved.log_sum_exp.span(),
          shape_of(q, k, kv_of_head, saved.drop));
      return {std::move(dq), std::move(dk), std::move(dv)};
    }

   private:
    // For each head here, the kv head here that it reads.
    static std::vector<int> reads(const query_type& q, const key_type& k) {
      const auto all_heads = q.global_shape().template of<heads>();
      const auto all_kv = k.global_shape().template of<kv_heads>();
      require(all_kv > 0 && all_heads % all_kv == 0, "attention: ", all_kv, " kv heads for ",
              all_heads, " heads; kv heads must divide heads");
      const auto mine = q.where().template of<heads>();
      const auto kv = k.where().template of<kv_heads>();
      std::vector<int> map;
      for (std::int64_t h = mine.begin; h < mine.end(); ++h) {
        const std::int64_t read = h / (all_heads / all_kv);
        require(read >= kv.begin && read < kv.end(), "attention: head ", h, " reads kv head ", read,
                ", which is not on its rank; spread the kv heads over the ranks that use them");
        map.push_back(static_cast<int>(read - kv.begin));
      }
      return map;
    }

    kernel::attention_dropout drop_of(const query_type& q) const {
      const auto length = q.global_shape().template of<sequence>();
      return {
          .p = detail::dropped_share(*state_),
          .stream = random_stream(state_->seed, name_, static_cast<std::uint64_t>(state_->step)),
          .batch_begin = state_->batch_begin,
          .head_begin = q.where().template of<heads>().begin,
          .heads_global = q.global_shape().template of<heads>(),
          .q_length_global = length,
          .k_length_global = length};
    }

    static kernel::attention_shape shape_of(const query_type& q, const key_type& k,
                                            const std::vector<int>& kv_of_head,
                                            const kernel::attention_dropout& drop) {
      const auto width = q.template extent<head_width>();
      return {.batch = q.template extent<batch>(),
              .q_length = q.template extent<sequence>(),
              .k_length = k.template extent<sequence>(),
              .heads = q.template extent<heads>(),
              .kv_heads = k.template extent<kv_heads>(),
              .width = width,
              .scale = 1.0 / std::sqrt(static_cast<double>(width)),
              .kv_of_head = kv_of_head,
              .dropout = drop};
    }

    std::string name_;
    const run_state* state_;
  };
};

}  // namespace tenon::inline v0
