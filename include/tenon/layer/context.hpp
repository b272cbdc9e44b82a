// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>

#include "tenon/base/check.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/ranks.hpp"
#include "tenon/layer/sizes.hpp"

namespace tenon::inline v0 {

/// What the layers of a run share and the trainer sets before every microbatch.
struct run_state {
  std::uint64_t seed = 1;
  std::int64_t step = 0;
  double dropout = 0;            ///< share of values dropped while training
  bool training = true;          ///< false: nothing is dropped
  std::int64_t batch_begin = 0;  ///< place of this rank's first sequence in the step's batch
  double balance_scale = 0;      ///< what the balancing loss of one sequence counts in the gradient
  /// The sum of the balancing losses whose gradient backward has made: of this rank's sequences, in
  /// all layers with experts. Set to 0 by who reads it.
  mutable double balance_sum = 0;
};

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
