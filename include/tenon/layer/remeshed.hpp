// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tenon/layer/any_layer.hpp"
#include "tenon/tensor/remesh.hpp"

namespace tenon::inline v0 {

/// The border between layers on two meshes over the same ranks: the stream goes on, placed alike on
/// the other mesh. Backward it is the border in the other direction.
/// Thread-safety: none; a layer belongs to its rank's thread.
template <class Stream>
class remesh_border final : public any_layer<Stream> {
  using mesh_type = typename Stream::mesh_type;
  using layout_type = typename Stream::layout_type;

 public:
  remesh_border(ranks<mesh_type>& from, ranks<mesh_type>& to, std::string name)
      : from_(&from), to_(&to), name_(std::move(name)) {}

  std::pair<Stream, std::unique_ptr<any_saved>> forward(Stream x) override {
    return {moved(x, *to_), nullptr};
  }
  Stream backward(Stream gradient, std::unique_ptr<any_saved>) override {
    return moved(gradient, *from_);
  }
  void for_each_parameter(
      const typename any_part<wide<typename Stream::element_type>, mesh_type>::visitor&) override {}
  bool backward_reads_weights() const override { return false; }
  void add_forward_prices(prices_on<mesh_type>& prices, const dim_sizes& sizes) const override {
    add_prices(prices, sizes, *from_, *to_, "forward");
  }
  void add_backward_prices(prices_on<mesh_type>& prices, const dim_sizes& sizes) const override {
    add_prices(prices, sizes, *to_, *from_, "backward");
  }

 private:
  Stream moved(const Stream& x, ranks<mesh_type>& to) const {
    return remesh<typename Stream::placement_type>(x, to, layout_type(x.global_shape(), to.grid()),
                                                   name_);
  }
  static void add_prices(prices_on<mesh_type>& prices, const dim_sizes& sizes,
                         ranks<mesh_type>& from, ranks<mesh_type>& to, std::string_view phase) {
    if (from.grid().size() == 1) return;
    const auto extents = sizes.of(typename Stream::dims_type{});
    prices.add(from.along(ranks<mesh_type>::all_axes).axis(), "all_to_all", phase,
               remesh_elements(layout_type(extents, from.grid()), layout_type(extents, to.grid())) *
                   static_cast<std::int64_t>(sizeof(typename Stream::element_type)));
  }

  ranks<mesh_type>* from_;
  ranks<mesh_type>* to_;
  std::string name_;
};

/// A layer that lives on another mesh than the model does, between two borders: what it sends is
/// priced on its own mesh.
/// Thread-safety: none; a layer belongs to its rank's thread.
template <class Stream>
class on_mesh final : public any_layer<Stream> {
  using mesh_type = typename Stream::mesh_type;

 public:
  on_mesh(mesh_type grid, std::unique_ptr<any_layer<Stream>> layer)
      : grid_(grid), layer_(std::move(layer)) {}

  std::pair<Stream, std::unique_ptr<any_saved>> forward(Stream x) override {
    return layer_->forward(std::move(x));
  }
  Stream backward(Stream gradient, std::unique_ptr<any_saved> saved) override {
    return layer_->backward(std::move(gradient), std::move(saved));
  }
  void for_each_parameter(const typename any_part<wide<typename Stream::element_type>,
                                                  mesh_type>::visitor& f) override {
    layer_->for_each_parameter(f);
  }
  void add_forward_prices(prices_on<mesh_type>& prices, const dim_sizes& sizes) const override {
    prices_on<mesh_type> here(grid_);
    layer_->add_forward_prices(here, sizes);
    prices.add_rows(here);
  }
  void add_backward_prices(prices_on<mesh_type>& prices, const dim_sizes& sizes) const override {
    prices_on<mesh_type> here(grid_);
    layer_->add_backward_prices(here, sizes);
    prices.add_rows(here);
  }

 private:
  mesh_type grid_;
  std::unique_ptr<any_layer<Stream>> layer_;
};

}  // namespace tenon::inline v0
