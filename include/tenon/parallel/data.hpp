// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/communicate/call.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/prices.hpp"

namespace tenon::inline v0 {

/// How gradients are put together for their reduction: as many elements as given, or, with 0, each
/// parameter by itself.
struct bucket_size {
  std::int64_t elements = std::int64_t{1} << 22;
};

/// The gradients of all parameters, and the sums over ranks that their types ask for: where a use
/// is replicated and its owner invariant, the gradient is partial, and the move back is an
/// all-reduce. Gradients that are partial over the same axes lie in one buffer, which is reduced in
/// buckets.
///
///   group "data"            [ w0 | w1 | w2 ... ]     -> all_reduce over data
///   group "data, tensor"    [ gain0 | gain1 ... ]    -> all_reduce over data, then over tensor
///   group of no axis        [ ... ]                  -> nothing
///
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class gradient_reduction {
 public:
  /// Gives every parameter's owned gradient its memory. The parameters must outlive this.
  explicit gradient_reduction(std::vector<any_parameter<Wide>*> parameters, bucket_size bucket = {})
      : parameters_(std::move(parameters)), bucket_(bucket) {
    require(bucket.elements >= 0, "gradient_reduction: buckets of ", bucket.elements,
            " elements were asked for; use one or more, or 0 for one bucket a parameter");
    for (any_parameter<Wide>* parameter : parameters_) {
      auto lines = parameter->partial_over();
      auto found = std::find_if(groups_.begin(), groups_.end(),
                                [&](const group& g) { return g.lines == lines; });
      if (found == groups_.end()) found = groups_.insert(found, group{std::move(lines), 0, {}, {}});
      found->ends.push_back(found->elements += parameter->owned_elements());
      found->members.push_back(parameter);
    }
    for (group& g : groups_) {
      const auto memory = std::make_shared<buffer<Wide>>(g.elements);
      g.memory = memory;
      for (std::size_t i = 0; i < g.members.size(); ++i) {
        g.members[i]->place_gradient(memory, g.ends[i] - g.members[i]->owned_elements());
      }
    }
  }

  /// All gradients at zero: before the first microbatch of a step.
  void begin_step() {
    for (any_parameter<Wide>* parameter : parameters_) parameter->begin_step();
  }

  /// Collective: after the last microbatch. The owned gradients are then whole, on every axis.
  void reduce() {
    for (any_parameter<Wide>* parameter : parameters_) parameter->gather_uses();
    for (group& g : groups_) {
      for_each_bucket(g, [&](std::int64_t begin, std::int64_t count, const std::string& name) {
        Wide* values = shapes_only::active() ? nullptr : g.memory->data() + begin;
        for (communicator* line : g.lines) {
          line->call({.call = collective::all_reduce,
                      .element = kind_of<Wide>,
                      .from = values,
                      .to = values,
                      .count = count},
                     {.tensor = name}, call_site::here());
        }
      });
    }
  }

  /// What `reduce` sends, from the parameters' types and sizes.
  template <class Mesh>
  void add_prices(prices_on<Mesh>& prices, std::string_view phase) const {
    for (const any_parameter<Wide>* parameter : parameters_) {
      if (parameter->spread_axis().empty()) continue;
      prices.add(parameter->spread_axis(), "all_to_all", phase, parameter->spread_bytes_backward());
    }
    for (const group& g : groups_) {
      for_each_bucket(g, [&](std::int64_t, std::int64_t count, const std::string&) {
        for (communicator* line : g.lines) {
          const auto mine = partition::balanced(count, line->size()).of(line->rank()).size;
          prices.add(line->axis(), "all_reduce", phase,
                     2 * (count - mine) * static_cast<std::int64_t>(sizeof(Wide)));
        }
      });
    }
  }

 private:
  struct group {
    std::vector<communicator*> lines;
    std::int64_t elements = 0;
    std::vector<std::int64_t> ends;  // of each member, in the buffer
    std::vector<any_parameter<Wide>*> members;
    std::shared_ptr<buffer<Wide>> memory = {};
  };

  template <class F>
  void for_each_bucket(const group& g, F&& f) const {
    if (g.lines.empty() || g.elements == 0) return;
    if (bucket_.elements == 0) {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < g.members.size(); ++i) {
        if (g.ends[i] > begin) f(begin, g.ends[i] - begin, g.members[i]->declaration().name);
        begin = g.ends[i];
      }
      return;
    }
    for (std::int64_t begin = 0; begin < g.elements; begin += bucket_.elements) {
      f(begin, std::min(bucket_.elements, g.elements - begin), std::string("gradients"));
    }
  }

  std::vector<any_parameter<Wide>*> parameters_;
  bucket_size bucket_;
  std::vector<group> groups_;
};

}  // namespace tenon::inline v0
