// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tenon/communicate/ranks.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/placement/layout.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0 {

/// A tensor that the ranks of a mesh hold together: its element, its dims, and its placement are
/// its type. This object is one rank's piece, row-major in the order of the dims.
///
///   tensor<fp32, dims<batch, hidden>,
///          placement<on<axis::data, sharded<batch>>, on<axis::tensor, partial>>> x(ranks, {8,
///          64});
///
/// Copying a tensor copies a handle: both share the memory (`clone` copies the values). Who writes
/// into a tensor must be the only holder; `only_holder` tells.
/// Errors: bad_request when the shape is negative; failed when there is no memory.
/// Thread-safety: as a std::shared_ptr; a tensor belongs to its rank's thread.
template <storable Element, class Dims, class Placement>
class tensor {
 public:
  using element_type = Element;
  using dims_type = Dims;
  using placement_type = Placement;
  using layout_type = layout<Dims, Placement>;
  using mesh_type = typename Placement::mesh_type;
  using ranks_type = ranks<mesh_type>;

  tensor() = default;

  /// A tensor of the global shape given, its values not set.
  tensor(ranks_type& group, tenon::shape<Dims> global)
      : tensor(group, layout_type(global, group.grid())) {}
  tensor(ranks_type& group, layout_type where)
      : ranks_(&group), where_(std::move(where)), memory_(own_memory(where_.elements(), data_)) {}

  /// All values zero.
  static tensor zeros(ranks_type& group, layout_type where) {
    tensor fresh(group, std::move(where));
    fresh.fill_with_zeros();
    return fresh;
  }
  static tensor zeros(ranks_type& group, tenon::shape<Dims> global) {
    return zeros(group, layout_type(global, group.grid()));
  }

  /// A tensor on memory that others hold too: `where.elements()` elements from `begin` on.
  tensor(ranks_type& group, layout_type where, std::shared_ptr<buffer<Element>> memory,
         std::int64_t begin)
      : ranks_(&group), where_(std::move(where)), data_(memory->data()) {
    if (data_ != nullptr) data_ += begin;
    memory_ = std::move(memory);
  }
  /// The same at `values`, which `memory` keeps.
  tensor(ranks_type& group, layout_type where, std::shared_ptr<void> memory, void* values)
      : ranks_(&group),
        where_(std::move(where)),
        data_(static_cast<Element*>(values)),
        memory_(std::move(memory)) {}

  /// The same memory under another placement. It is the moves' tool: it states that what this rank
  /// holds is its piece of the new placement, so only code that has made it so may call it.
  template <class Other>
  tensor<Element, Dims, Other> relabelled(layout<Dims, Other> where) const {
    tensor<Element, Dims, Other> same;
    same.ranks_ = ranks_;
    same.where_ = std::move(where);
    same.memory_ = memory_;
    same.data_ = data_;
    return same;
  }

  ranks_type& group() const noexcept { return *ranks_; }
  const layout_type& where() const noexcept { return where_; }
  const tenon::shape<Dims>& global_shape() const noexcept { return where_.global(); }

  /// This rank's extent of a dim.
  template <class D>
  std::int64_t extent() const noexcept {
    return where_.template extent<D>();
  }
  /// The number of elements on this rank.
  std::int64_t elements() const noexcept { return where_.elements(); }
  bool empty() const noexcept { return elements() == 0; }

  Element* data() noexcept { return data_; }
  const Element* data() const noexcept { return data_; }
  std::span<Element> values() noexcept { return {data_, counted()}; }
  std::span<const Element> values() const noexcept { return {data_, counted()}; }

  /// This rank's piece as a matrix: the last `Trailing` dims are its columns, the others its rows.
  template <std::size_t Trailing = 1>
  matrix_view<Element> matrix() noexcept {
    const auto [rows, columns] = matrix_extents<Trailing>();
    return view_of(data_, rows, columns);
  }
  template <std::size_t Trailing = 1>
  matrix_view<const Element> matrix() const noexcept {
    const auto [rows, columns] = matrix_extents<Trailing>();
    return view_of(static_cast<const Element*>(data_), rows, columns);
  }

  bool only_holder() const noexcept { return memory_.use_count() == 1; }
  bool holds_memory() const noexcept { return memory_ != nullptr; }
  /// What keeps the values.
  const std::shared_ptr<void>& memory() const noexcept { return memory_; }

  tensor clone() const {
    tensor fresh(*ranks_, where_);
    copy_bytes(fresh.data_, data_, bytes());
    return fresh;
  }
  void fill_with_zeros() { fill_bytes_with_zeros(data_, bytes()); }

 private:
  template <storable E, class D, class P>
  friend class tensor;

  static std::shared_ptr<void> own_memory(std::int64_t elements, Element*& data) {
    auto memory = std::make_shared<buffer<Element>>(elements);
    data = memory->data();
    return memory;
  }
  std::int64_t bytes() const noexcept {
    return elements() * static_cast<std::int64_t>(sizeof(Element));
  }
  std::size_t counted() const noexcept {
    return data_ == nullptr ? 0 : static_cast<std::size_t>(elements());
  }
  template <std::size_t Trailing>
  std::pair<std::int64_t, std::int64_t> matrix_extents() const noexcept {
    static_assert(Trailing <= Dims::size,
                  "tensor: a matrix of more trailing dims than there are was asked for; use fewer");
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    for (std::size_t d = 0; d < Dims::size; ++d) {
      (d + Trailing < Dims::size ? rows : columns) *= where_.regions()[d].size;
    }
    return {rows, columns};
  }

  ranks_type* ranks_ = nullptr;
  layout_type where_{};
  Element* data_ = nullptr;
  std::shared_ptr<void> memory_;
};

template <class T>
inline constexpr bool is_tensor = false;
template <class E, class D, class P>
inline constexpr bool is_tensor<tensor<E, D, P>> = true;

/// The type of the gradient of a tensor: the same element and dims, the gradients' states.
template <class T>
struct gradient_tensor;
template <class E, class D, class P>
struct gradient_tensor<tensor<E, D, P>> {
  using type = tensor<E, D, gradient_placement<P>>;
};
template <class T>
using gradient_of = typename gradient_tensor<T>::type;

/// The layout of the gradient: the same pieces under the gradients' states.
template <class D, class P>
constexpr layout<D, gradient_placement<P>> gradient_layout(const layout<D, P>& where) {
  layout<D, gradient_placement<P>> gradients(where.global(), where.grid());
  for_each_axis(std::type_identity<typename P::mesh_type>{}, [&]<class A>(A) {
    if constexpr (is_sharded<state_on_t<P, A>>) {
      if (where.template is_custom<A>()) {
        gradients = gradients.template with<A>(where.template partition_on<A>());
      }
    }
  });
  return gradients;
}

}  // namespace tenon::inline v0
