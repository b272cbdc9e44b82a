// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the fault tests share: a mesh of data and tensor ranks, and what layers are built with.

#include <cstdint>
#include <memory>
#include <utility>

#include "findings.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/context.hpp"

namespace tenon_test {

using grid = mesh<axis::data, axis::tensor>;
template <class OnData, class OnTensor>
using on_grid = placement<on<axis::data, OnData>, on<axis::tensor, OnTensor>>;

/// The ranks and what layers and parameters are built with.
template <class Mesh = grid>
struct built_with {
  ranks<Mesh> group;
  dim_sizes sizes;
  run_state state;
  shared_parameters shared;

  built_with(transport& world, Mesh mesh, communicator_options options = {})
      : group(world, mesh, options) {}
  layer_context<Mesh> context(std::string name) { return {group, sizes, state, shared, name}; }
};

/// Runs body(findings, built_with&) on data x tensor simulated ranks; returns the first finding.
template <class Body>
std::string on_ranks(int data, int tensor, Body&& body) {
  findings found;
  simulate(data * tensor, [&](transport& world) {
    built_with<> all(world, grid({data, tensor}));
    body(found, all);
  });
  return found.first();
}

}  // namespace tenon_test
