// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/ranks.hpp"
#include "tenon/kernel/row_places.hpp"
#include "tenon/layer/sizes.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/seen_by_host.hpp"
#include "tenon/placement/token_order.hpp"

namespace tenon::inline v0 {

/// Which parts of a block run forward once more in backward instead of keeping what it needs.
/// Source: V. Korthikanti and others, Reducing activation recomputation in large transformer
/// models, MLSys 2023.
enum class recompute : std::uint8_t { none, attention, block };

constexpr std::string_view name_of(recompute what) noexcept {
  constexpr std::string_view names[] = {"none", "attention", "block"};
  return names[static_cast<int>(what)];
}

/// Products that give gradients of weights, put off: a pipeline runs them when it would idle.
using deferred_products = std::vector<std::function<void()>>;

/// Several documents in a sequence: where the document of each position begins, for the sequences
/// that this rank has a part of. Tokens see no other document, and their places restart. The begins
/// lie in the rank's memory.
/// Thread-safety: const members may be called at once.
class packed_documents {
 public:
  /// `begins` [sequences, length] by position, falling nowhere within a sequence.
  packed_documents(std::int64_t length, buffer<std::int32_t> begins)
      : length_(length), begins_(std::move(begins)) {}

  /// A document ends with the token `separator`, the next token begins another; `tokens`
  /// [sequences, length] by position, on the host.
  static packed_documents separated_by(std::int32_t separator, std::int64_t length,
                                       const buffer<std::int32_t>& tokens) {
    buffer<std::int32_t> begins(tokens.size(), place::host);
    for (std::int64_t i = 0; !shapes_only::active() && i < begins.size(); ++i) {
      const std::int64_t at = i % length;
      begins[i] = at == 0                      ? 0
                  : tokens[i - 1] == separator ? static_cast<std::int32_t>(at)
                                               : begins[i - 1];
    }
    return {length, moved_in(std::move(begins))};
  }

  std::int64_t length() const noexcept { return length_; }
  std::span<const std::int32_t> begins() const noexcept { return begins_.span(); }

 private:
  std::int64_t length_;
  buffer<std::int32_t> begins_;
};

/// What the layers of a run share and the trainer sets before every microbatch.
struct run_state {
  std::uint64_t seed = 1;
  std::int64_t step = 0;
  double dropout = 0;            ///< share of values dropped while training
  bool training = true;          ///< false: nothing is dropped
  std::int64_t batch_begin = 0;  ///< place of this rank's first sequence in the step's batch
  tenon::recompute recompute = tenon::recompute::none;
  deferred_products* deferred = nullptr;  ///< where backward puts products off to; none: at once
  std::shared_ptr<const packed_documents> documents = {};  ///< of the microbatch; null: not packed
  double balance_scale = 0;  ///< what the balancing loss of one sequence counts in the gradient
  /// The sum of the balancing losses whose gradient backward has made: of this rank's sequences, in
  /// all layers with experts. Set to 0 by who reads it.
  mutable double balance_sum = 0;
};

namespace detail {

/// Runs a product of a weight's gradient, or puts it off; what it reads it must hold.
template <class Product>
void now_or_deferred(deferred_products* later, Product&& product) {
  if (later == nullptr) return product();
  later->push_back(std::forward<Product>(product));
}

}  // namespace detail

/// In which order sequences of `length` lie on the ranks of a mesh.
template <class Mesh>
token_order order_on(const Mesh& grid, std::int64_t length, const context_plan& plan) {
  if constexpr (Mesh::template has<axis::context>) {
    return token_order(plan.order, length, grid.template extent<axis::context>(),
                       plan.heads_parallel);
  } else {
    return {};
  }
}

/// The positions of this rank's rows of a sequence of the tensor x.
template <class T>
position_runs positions_here(const T& x, const context_plan& plan) {
  return order_on(x.where().grid(), x.global_shape().template of<sequence>(), plan)
      .runs_of(x.where().template of<sequence>());
}

/// The places of the rows of x [batch, sequence, ...].
template <class T>
kernel::row_places places_of_rows(const T& x, const context_plan& plan,
                                  const packed_documents* documents) {
  kernel::row_places places{.runs = positions_here(x, plan), .rows = x.template extent<sequence>()};
  if (documents != nullptr) {
    places.document_begins = documents->begins().data();
    places.length = documents->length();
  }
  return places;
}

/// Parameters that several layers use, by name: a tied table is declared by the first layer that
/// asks for it and found by the next.
class shared_parameters {
 public:
  template <class Parameter, class Make>
  std::shared_ptr<Parameter> get(const std::string& name, Make&& make) {
    auto& entry = all_[name];
    if (entry.held == nullptr) {
      entry = {std::static_pointer_cast<void>(std::shared_ptr<Parameter>(make())),
               std::type_index(typeid(Parameter))};
    }
    require(entry.type == std::type_index(typeid(Parameter)), "parameter ", name,
            ": it is shared by layers that place it differently; give both one placement");
    return std::static_pointer_cast<Parameter>(entry.held);
  }

 private:
  struct entry_type {
    std::shared_ptr<void> held;
    std::type_index type = typeid(void);
  };
  std::map<std::string, entry_type> all_;
};

/// What a layer is built with: the ranks, the sizes, the shared state, and its name, from which its
/// parameters and random streams are named. All but the name must outlive the layer.
template <class Mesh>
struct layer_context {
  ranks<Mesh>& group;
  const dim_sizes& sizes;
  const run_state& state;
  shared_parameters& shared;
  std::string name;

  layer_context child(std::string_view part) const {
    if (part.empty()) return *this;
    return {group, sizes, state, shared,
            name.empty() ? std::string(part) : name + "." + std::string(part)};
  }
};

}  // namespace tenon::inline v0
