// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <tuple>
#include <utility>

#include "pretrain_decoder/compiled_trainers.hpp"
#include "pretrain_decoder/run.hpp"
#include "record.hpp"
#include "tenon/communicate/delayed.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/communicate/staged.hpp"
#include "tenon/kernel/product_log.hpp"
#include "tenon/memory/meter.hpp"
#include "tenon/memory/seen_by_host.hpp"

namespace tenon_test {

namespace {

// A transport that loses or changes calls on the way, so that counts and plans above it agree.
class breaking_transport final : public transport {
 public:
  breaking_transport(std::unique_ptr<transport> inner, sabotage broken)
      : transport(inner->rank(), inner->size()), inner_(std::move(inner)), broken_(broken) {}

  std::unique_ptr<transport> split(int color, int key) override {
    return std::make_unique<breaking_transport>(inner_->split(color, key), broken_);
  }
  void run(const request& call) override {
    if (!is_lost(call)) inner_->run(call);
  }
  pending start(const request& call) override {
    return is_lost(call) ? pending() : inner_->start(call);
  }
  std::int64_t copied_bytes() const noexcept override { return inner_->copied_bytes(); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }

 private:
  // A call is lost on all ranks: each then goes on with its own term.
  bool is_lost(const request& call) const {
    if (call.call != collective::all_reduce) return false;
    const bool of_gradients = call.axis == "data" && call.tensor == "gradients";
    if (broken_ == sabotage::scaled_gradient && of_gradients && rank() + 1 == size()) {
      auto* values = static_cast<double*>(call.to);
      for (std::int64_t i = 0; i < call.count; ++i) values[i] *= 1 + 1e-6;
    }
    return (broken_ == sabotage::lost_data_reduction && of_gradients) ||
           (broken_ == sabotage::lost_tensor_reduction && call.axis == "tensor" &&
            call.tensor.starts_with("blocks.1."));
  }

  std::unique_ptr<transport> inner_;
  sabotage broken_;
};

template <class Wide>
pieces pieces_of(const std::vector<any_parameter<Wide>*>& parameters, bool gradients) {
  const uncounted_memory of_the_comparison;
  pieces all;
  for (any_parameter<Wide>* p : parameters) {
    const seen_by_host<Wide> seen(gradients ? p->owned_gradient() : p->owned_values());
    const auto values = seen.values();
    all.push_back({p->declaration().name,
                   p->extents(),
                   p->piece_regions(),
                   p->part().begin,
                   p->counted_here(),
                   p->is_copy(),
                   {values.begin(), values.end()}});
  }
  return all;
}

std::int32_t token_at(std::int64_t step, std::int64_t place, std::int64_t position,
                      std::int64_t vocabulary) {
  const random_stream stream(7, "tokens", static_cast<std::uint64_t>(step));
  return static_cast<std::int32_t>((stream.normal(place * 1000 + position) + 40) * 1e6) %
         static_cast<std::int32_t>(vocabulary);
}

// The target behind a position, or -1: masked 0 counts all; 1 counts an uneven part; 2 none; 3 only
// the first sequence of the batch.
std::int32_t target_of(int masked, std::int64_t place, std::int64_t position, std::int32_t token) {
  const bool counted = masked == 0 || (masked == 1 && (place * 5 + position * 3) % 4 != 0) ||
                       (masked == 3 && place == 0);
  return counted ? token : -1;
}

// A document of the packed sequences of a step.
struct document {
  std::int64_t place;
  std::int64_t begin;
  std::int64_t end;
};
std::vector<document> documents_of_step(const training_request& r, std::int32_t separator,
                                        std::int64_t sequences, std::int64_t step) {
  std::vector<document> all;
  for (std::int64_t b = 0; b < sequences; ++b) {
    std::int64_t begin = 0;
    for (std::int64_t j = 0; j < r.shape.sequence; ++j) {
      const bool ends = token_at(step, b, j, r.shape.vocabulary) == separator;
      if (!ends && j + 1 < r.shape.sequence) continue;
      all.push_back({b, begin, j + 1});
      begin = j + 1;
    }
  }
  return all;
}

token_source source_of_documents(const training_request& r) {
  return [r](std::int64_t step, region places, std::span<std::int32_t> inputs,
             std::span<std::int32_t> targets) {
    const auto all = documents_of_step(r, r.separator_of_documents, r.documents_of, step);
    std::size_t i = 0;
    for (std::int64_t b = places.begin; b < places.end(); ++b) {
      const document& one = all.at(static_cast<std::size_t>(b));
      for (std::int64_t j = 0; j < r.shape.sequence; ++j, ++i) {
        const std::int64_t at = one.begin + j;
        const bool inside = at < one.end;
        const auto token = [&](std::int64_t position) {
          return token_at(step, one.place, position, r.shape.vocabulary);
        };
        inputs[i] = inside ? token(at) : 0;
        targets[i] = inside ? target_of(r.masked, one.place, at, token(at + 1)) : -1;
      }
    }
  };
}

token_source source_of(const training_request& r) {
  if (r.documents_of > 0) return source_of_documents(r);
  return [r](std::int64_t step, region places, std::span<std::int32_t> inputs,
             std::span<std::int32_t> targets) {
    std::size_t i = 0;
    for (std::int64_t b = places.begin; b < places.end(); ++b) {
      for (std::int64_t j = 0; j < r.shape.sequence; ++j, ++i) {
        inputs[i] = token_at(step, b, j, r.shape.vocabulary);
        targets[i] = target_of(r.masked, b, j, token_at(step, b, j + 1, r.shape.vocabulary));
      }
    }
  };
}

trainer_settings settings_of(const training_request& r) {
  trainer_settings settings;
  settings.batch = r.batch;
  settings.microbatch = r.microbatch;
  settings.rate = {.peak = 1e-3, .warmup = 1, .steps = 100};
  settings.optimizer.weight_decay = r.weight_decay;
  settings.clip = r.clip;
  settings.balance = r.balance;
  settings.shards = r.shards;
  settings.schedule = r.schedule;
  settings.chunks = r.chunks;
  settings.own_schedule = r.own_schedule;
  settings.recompute = r.recompute;
  settings.context = r.attention;
  settings.document_separator = r.document_separator;
  return settings;
}

// Predicted against counted, row by row in both directions, and the transport's own count. What
// goes to experts depends on the tokens: it must not be more than the most that was predicted, and
// what it is exactly is tested with the layer.
template <class Mesh>
void compare_traffic(const prices_on<Mesh>& predicted, ranks<Mesh>& group, std::int64_t copied,
                     int steps, std::vector<std::string>& faults) {
  std::int64_t counted_bytes = 0;
  for (const auto& [key, row] : group.ledger().rows()) {
    counted_bytes += row.bytes;
    const auto found = predicted.rows().find({key.axis, key.call, key.phase});
    if (found != predicted.rows().end() && found->second.varies) {
      if (row.bytes > found->second.most * steps || row.calls != found->second.calls * steps) {
        faults.push_back(joined("rank ", group.rank(), ", axis ", key.axis, ", ", key.call, ", ",
                                key.phase, ": at most ", found->second.most * steps, " bytes in ",
                                found->second.calls * steps, " calls predicted, ", row.bytes,
                                " in ", row.calls, " counted"));
      }
      continue;
    }
    const std::int64_t bytes = found == predicted.rows().end() ? 0 : found->second.bytes * steps;
    if (bytes != row.bytes) {
      faults.push_back(joined("rank ", group.rank(), ", axis ", key.axis, ", ", key.call, ", ",
                              key.phase, ": ", bytes, " bytes predicted, ", row.bytes, " counted"));
    }
  }
  for (const auto& [key, row] : predicted.rows()) {
    const auto& [axis, call, phase] = key;
    const auto found = group.ledger().rows().find(
        std::tuple(std::string_view(axis), std::string_view(call), std::string_view(phase)));
    if (row.most != 0 && found == group.ledger().rows().end()) {
      faults.push_back(joined("rank ", group.rank(), ", axis ", axis, ", ", call, ", ", phase, ": ",
                              row.bytes, " bytes predicted and no call"));
    }
  }
  if (copied >= 0 && copied != counted_bytes) {
    faults.push_back(joined("rank ", group.rank(), ": ", counted_bytes, " bytes counted, ", copied,
                            " copied by the transport"));
  }
}

// -1 where the transport does not know, as that of MPI.
template <class Mesh>
std::int64_t copied_bytes(ranks<Mesh>& group) {
  std::int64_t sum = 0;
  group.for_each_group([&](communicator& line) { sum += line.group().copied_bytes(); });
  return sum;
}

// The ranks on the meshes that blocks live on, where those are others than the run's.
template <class Placed>
struct other_meshes {
  using group_type = ranks<typename Placed::mesh_type>;
  std::vector<std::unique_ptr<group_type>> held;
  std::vector<group_type*> of_blocks;

  other_meshes(group_type& group, const training_request& r) {
    std::map<std::pair<int, int>, group_type*> known;
    for (const auto& extents : r.block_meshes) {
      group_type*& here = known[extents];
      if (here == nullptr) {
        held.push_back(std::make_unique<group_type>(group_type::beside(
            group,
            Placed::mesh_of({.data = extents.first, .tensor = extents.second}, group.rank()))));
        here = held.back().get();
      }
      of_blocks.push_back(here);
    }
  }
};

template <element E, class StreamState>
rank_record run_rank(std::unique_ptr<transport> world, const training_request& r) {
  using trainer_type = trainer<E, StreamState>;
  using placed = decoder_placements<StreamState>;
  using group_type = ranks<typename placed::mesh_type>;
  const int rank = world->rank();
  const auto mesh = placed::mesh_of({.data = r.data,
                                     .tensor = r.tensor,
                                     .tensor_grid = std::max(r.tensor_grid, 1),
                                     .expert = r.expert,
                                     .context = r.context},
                                    rank);
  const communicator_options options{.sums = r.sums};
  const auto source = source_of(r);
  rank_record record;

  std::int64_t predicted_peak = 0;
  {
    const shapes_only dry;
    auto group = group_type::absent(mesh, options, r.pipeline, rank / mesh.size());
    const other_meshes<placed> others(group, r);
    trainer_type planned(group, r.shape, settings_of(r), others.of_blocks);
    record.costs.predicted_state = memory_meter::of_this_rank().live();
    planned.step(source);
    predicted_peak = memory_meter::of_this_rank().peak();
  }

  auto& meter = memory_meter::of_this_rank();
  const std::int64_t before = meter.live();
  meter.restart_peak();
  group_type group(std::move(world), mesh, options, r.pipeline);
  const other_meshes<placed> others(group, r);
  trainer_type run(group, r.shape, settings_of(r), others.of_blocks);
  const auto& parameters = run.parameters();
  record.state_bytes = meter.live() - before;
  record.costs.counted_state = record.state_bytes;
  for (const auto* p : parameters) {
    record.parameters += p->global_elements();
    record.owned += p->owned_elements();
  }
  record.initial = pieces_of(parameters, false);
  const auto predicted = run.predicted_traffic();
  group.ledger().restart();
  const auto copied = [&] {
    std::int64_t sum = copied_bytes(group);
    for (const auto& other : others.held) sum += copied_bytes(*other);
    return sum;
  };
  const std::int64_t copied_before = copied();
  const double operations_before = kernel::product_operations();
  for (int i = 0; i < r.steps; ++i) {
    const step_result result = run.step(source);
    record.losses.push_back(result.loss);
    record.balance_losses.push_back(result.balance_loss);
    record.norms.push_back(result.gradient_norm);
    if (i == 0) record.gradients = pieces_of(parameters, true);
  }
  record.operations = (kernel::product_operations() - operations_before) / r.steps;
  for (const auto& [key, row] : group.ledger().rows()) {
    record.traffic[joined(key.axis, ", ", key.call, ", ", key.phase)] = row.bytes / r.steps;
  }
  record.weights = pieces_of(parameters, false);
  compare_traffic(predicted, group, copied_before < 0 ? -1 : copied() - copied_before, r.steps,
                  record.faults);
  for (const auto& [axis, bytes] : predicted.bytes_by_axis()) {
    record.costs.predicted_bytes += bytes;
  }
  for (const auto& [row, bytes] : record.traffic) record.costs.counted_bytes += bytes;
  record.costs.predicted_memory = predicted_peak;
  record.costs.counted_memory = meter.peak() - before;
  if (record.costs.counted_state != record.costs.predicted_state) {
    record.faults.push_back(joined("rank ", rank, ": ", record.costs.predicted_state,
                                   " bytes of state predicted, ", record.costs.counted_state,
                                   " held"));
  }
  // Where tokens go to other ranks' experts, these hold as many activations as chose them.
  const bool peak_is_known = r.shape.experts == 0 || r.expert == 1;
  if (peak_is_known && meter.peak() - before != predicted_peak) {
    record.faults.push_back(joined("rank ", rank, ": ", predicted_peak,
                                   " bytes of memory predicted, ", meter.peak() - before,
                                   " at the most"));
  }
  return record;
}

template <element E>
rank_record run_rank_of(std::unique_ptr<transport> world, const training_request& r) {
  if (r.tensor_grid > 0) return run_rank<E, stream_state::grid>(std::move(world), r);
  return r.split_sequence ? run_rank<E, stream_state::split_sequence>(std::move(world), r)
                          : run_rank<E, stream_state::whole>(std::move(world), r);
}

}  // namespace

std::int64_t documents_in(const training_request& r, std::int32_t separator,
                          std::int64_t sequences) {
  return static_cast<std::int64_t>(documents_of_step(r, separator, sequences, 0).size());
}

rank_record record_of_rank(std::unique_ptr<transport> world, const training_request& r) {
  const std::unique_ptr<device> own = r.make_device == nullptr ? nullptr : r.make_device();
  const computes_on here(own.get());
  if (own != nullptr) world = std::make_unique<staged_transport>(std::move(world));
  if (r.broken != sabotage::none) {
    world = std::make_unique<breaking_transport>(std::move(world), r.broken);
  }
  switch (r.element) {
    case element_kind::fp64:
      return run_rank_of<fp64>(std::move(world), r);
    case element_kind::fp32:
      return run_rank_of<fp32>(std::move(world), r);
    default:
      return run_rank_of<bf16>(std::move(world), r);
  }
}

training_outcome run_training(const training_request& r) {
  const int size = ranks_of(r);
  std::vector<rank_record> records(static_cast<std::size_t>(size));
  const delayed_links links(r.links);
  simulate(
      size,
      [&](std::unique_ptr<transport> world) {
        const auto rank = static_cast<std::size_t>(world->rank());
        if (r.links != nullptr) {
          world = std::make_unique<delayed_transport>(std::move(world), links);
        }
        records[rank] = record_of_rank(std::move(world), r);
      },
      r.options);
  return outcome_of(std::move(records));
}

int ranks_of(const training_request& r) {
  const int side = std::max(r.tensor_grid, 1);
  return r.pipeline * r.data * r.expert * r.context * r.tensor * side * side;
}

std::string text_of(const training_request& r) {
  const std::string contexts =
      r.context == 1
          ? std::string()
          : joined(", context ", r.context, ", heads parallel ", r.attention.heads_parallel,
                   ", window ", r.attention.ring_window, ", ", name_of(r.attention.order));
  return joined("data ", r.data, ", tensor ", r.tensor, r.split_sequence ? ", split sequence" : "",
                r.tensor_grid > 0 ? joined(", grid ", r.tensor_grid) : "",
                r.expert > 1 ? joined(", expert ", r.expert) : "",
                r.pipeline > 1 ? joined(", pipeline ", r.pipeline, " ", name_of(r.schedule)) : "",
                r.chunks > 1 ? joined(", chunks ", r.chunks) : "",
                r.shards.stage != shards::none ? joined(", shards ", name_of(r.shards.stage)) : "",
                r.shards.data_extent > 0 ? joined(" of ", r.shards.data_extent) : "",
                r.shards.overlap ? ", overlap" : "",
                r.recompute != recompute::none ? joined(", recompute ", name_of(r.recompute)) : "",
                r.shape.experts > 0 ? joined(", ", r.shape.experts, " experts in every ",
                                             r.shape.expert_stride, ". block")
                                    : "",
                contexts, r.document_separator < 0 ? "" : ", packed", ", ", name_of(r.shape.form),
                ", ", name_of(r.element));
}

decoder_shape small_shape(block_form form) {
  return {.form = form,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 24,
          .ffn = 40,
          .vocabulary = 257,
          .sequence = 5};
}

}  // namespace tenon_test
