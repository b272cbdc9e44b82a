// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "tenon/base/check.hpp"
#include "tenon/placement/dims.hpp"
#include "tenon/placement/partition.hpp"
#include "tenon/placement/token_order.hpp"

namespace tenon::inline v0 {

/// How attention works over the ranks of the context axis, as values: they change what is sent to
/// whom and when, and no type.
struct context_plan {
  token_order_kind order = token_order_kind::zigzag;
  int heads_parallel = 1;  ///< ranks that exchange their tokens for heads; the rest is the ring
  int ring_window = 0;     ///< ring members of an inner ring; 0: all, one ring

  friend constexpr bool operator==(const context_plan&, const context_plan&) noexcept = default;
};

/// The extents of the dims of a model, by dim: what a model file calls its sizes. A dim of a user's
/// own is set and read like the others.
/// Thread-safety: const members may be called at once.
class dim_sizes {
 public:
  /// Deviations of the initial weights of matrices, and of those that end a residual branch.
  double deviation = 0.02;
  double branch_deviation = 0.02;
  context_plan context{};
  /// How many experts a token chooses, where there are any.
  std::int64_t experts_per_token = 2;
  /// Products beside a cut sequence run in pieces, while the pieces travel. It changes no type; all
  /// ranks have it alike.
  bool overlap_products = false;

  template <tensor_dim D>
  dim_sizes& set(std::int64_t extent) {
    require(extent >= 0, "sizes: the dim ", D::name, " was given ", extent, "; use zero or more");
    extents_[D::name] = extent;
    return *this;
  }
  template <tensor_dim D>
  std::int64_t of() const {
    const auto found = extents_.find(D::name);
    require(found != extents_.end(), "sizes: the dim ", D::name,
            " has no extent; set it before layers are built");
    return found->second;
  }
  template <tensor_dim... Ds>
  shape<dims<Ds...>> of(dims<Ds...>) const {
    shape<dims<Ds...>> extents;
    std::size_t i = 0;
    ((extents.extents[i++] = of<Ds>()), ...);
    return extents;
  }

  /// Says which regions of a dim the ranks of an axis use, when they are not the owners' balanced
  /// pieces: the rule gets the number of ranks.
  template <tensor_dim D>
  dim_sizes& set_use(std::function<partition(int)> rule) {
    uses_[D::name] = std::move(rule);
    return *this;
  }
  /// The regions of a dim that the ranks use; the balanced pieces unless a rule was set.
  template <tensor_dim D>
  partition use_of(int parts) const {
    const auto found = uses_.find(D::name);
    return found == uses_.end() ? partition::balanced(of<D>(), parts) : found->second(parts);
  }
  template <tensor_dim D>
  bool has_use() const {
    return uses_.contains(D::name);
  }

 private:
  std::map<std::string_view, std::int64_t> extents_;
  std::map<std::string_view, std::function<partition(int)>> uses_;
};

}  // namespace tenon::inline v0
