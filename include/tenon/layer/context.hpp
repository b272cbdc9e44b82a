// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/ranks.hpp"
#include "tenon/layer/sizes.hpp"

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

/// What the layers of a run share and the trainer sets before every microbatch.
struct run_state {
  std::uint64_t seed = 1;
  std::int64_t step = 0;
  double dropout = 0;            ///< share of values dropped while training
  bool training = true;          ///< false: nothing is dropped
  std::int64_t batch_begin = 0;  ///< place of this rank's first sequence in the step's batch
  tenon::recompute recompute = tenon::recompute::none;
  deferred_products* deferred = nullptr;  ///< where backward puts products off to; none: at once
};

namespace detail {

/// Runs a product of a weight's gradient, or puts it off; what it reads it must hold.
template <class Product>
void now_or_deferred(deferred_products* later, Product&& product) {
  if (later == nullptr) return product();
  later->push_back(std::forward<Product>(product));
}

}  // namespace detail

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
