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

#include "pretrain_decoder/run.hpp"
#include "tenon/communicate/delayed.hpp"
#include "tenon/communicate/simulated.hpp"
#include "tenon/kernel/product_log.hpp"

namespace tenon_test {

namespace {

using grid = pretrain_decoder::grid;

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

// One rank's part of a parameter: a run of its piece.
struct piece {
  std::string name;
  std::vector<std::int64_t> extents;
  std::vector<region> regions;
  std::int64_t begin = 0;
  bool counted = false;
  bool is_copy = false;
  std::vector<double> values;
};
using pieces = std::vector<piece>;

template <class Wide>
pieces pieces_of(const std::vector<any_parameter<Wide>*>& parameters, bool gradients) {
  pieces all;
  for (any_parameter<Wide>* p : parameters) {
    const auto values = gradients ? p->owned_gradient() : p->owned_values();
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

// Calls f(global index, local index) for the elements of a piece, row-major.
template <class F>
void for_each_element(const piece& p, F&& f) {
  for (std::size_t local = 0; local < p.values.size(); ++local) {
    auto rest = p.begin + static_cast<std::int64_t>(local);
    std::int64_t global = 0;
    std::int64_t stride = 1;
    for (std::size_t d = p.extents.size(); d-- > 0;) {
      global += (p.regions[d].begin + rest % p.regions[d].size) * stride;
      rest /= p.regions[d].size;
      stride *= p.extents[d];
    }
    f(static_cast<std::size_t>(global), local);
  }
}

// Puts the counted pieces together: every element must be there once, and what other ranks hold of
// it must be the same bits.
global_tensors gathered(const std::vector<pieces>& of_ranks, const char* what,
                        std::vector<std::string>& faults) {
  // By name: each stage has its own.
  std::map<std::string, std::vector<std::pair<std::size_t, const piece*>>> by_name;
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    for (const piece& p : of_ranks[r]) {
      by_name[p.name].emplace_back(r, &p);
    }
  }
  global_tensors all;
  for (const auto& [name, held] : by_name) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : held.front().second->extents) elements *= extent;
    std::vector<double> values(static_cast<std::size_t>(elements));
    std::vector<int> owners(values.size(), 0);
    for (const auto& [rank, p] : held) {
      if (!p->counted) continue;
      for_each_element(*p, [&](std::size_t global, std::size_t local) {
        values[global] = p->values[local];
        ++owners[global];
      });
    }
    if (std::any_of(owners.begin(), owners.end(), [](int n) { return n != 1; })) {
      faults.push_back(joined(what, " of ", name, ": an element is not owned once"));
    }
    for (const auto& [rank, p] : held) {
      if (p->is_copy) continue;
      bool equal = true;
      for_each_element(*p, [&](std::size_t global, std::size_t local) {
        equal = equal && std::memcmp(&values[global], &p->values[local], sizeof(double)) == 0;
      });
      if (!equal) {
        faults.push_back(joined(what, " of ", name, ": rank ", rank, " holds other bits"));
      }
    }
    all.push_back({name, std::move(values)});
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
  settings.shards = r.shards;
  settings.schedule = r.schedule;
  settings.chunks = r.chunks;
  settings.recompute = r.recompute;
  settings.context = r.attention;
  settings.document_separator = r.document_separator;
  return settings;
}

// Predicted against counted, row by row in both directions, and the transport's own count.
void compare_traffic(const prices_on<grid>& predicted, ranks<grid>& group, std::int64_t copied,
                     int steps, std::vector<std::string>& faults) {
  std::int64_t counted_bytes = 0;
  for (const auto& [key, row] : group.ledger().rows()) {
    counted_bytes += row.bytes;
    const auto found = predicted.rows().find({key.axis, key.call, key.phase});
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
    if (row.bytes != 0 && found == group.ledger().rows().end()) {
      faults.push_back(joined("rank ", group.rank(), ", axis ", axis, ", ", call, ", ", phase, ": ",
                              row.bytes, " bytes predicted and no call"));
    }
  }
  if (copied != counted_bytes) {
    faults.push_back(joined("rank ", group.rank(), ": ", counted_bytes, " bytes counted, ", copied,
                            " copied by the transport"));
  }
}

std::int64_t copied_bytes(ranks<grid>& group) {
  std::int64_t sum = 0;
  group.for_each_group([&](communicator& line) { sum += line.group().copied_bytes(); });
  return sum;
}

struct rank_record {
  pieces initial, gradients, weights;
  std::vector<double> losses, norms;
  std::vector<std::string> faults;
  std::int64_t parameters = 0;
  std::int64_t owned = 0;
  std::int64_t state_bytes = 0;
  double operations = 0;
  std::map<std::string, std::int64_t> traffic;
};

// The ranks on the meshes that blocks live on, where those are others than the run's.
struct other_meshes {
  std::vector<std::unique_ptr<ranks<grid>>> held;
  std::vector<ranks<grid>*> of_blocks;

  other_meshes(ranks<grid>& group, const training_request& r) {
    std::map<std::pair<int, int>, ranks<grid>*> known;
    for (const auto& extents : r.block_meshes) {
      ranks<grid>*& here = known[extents];
      if (here == nullptr) {
        held.push_back(std::make_unique<ranks<grid>>(ranks<grid>::beside(
            group, mesh_of({.data = extents.first, .tensor = extents.second}, group.rank()))));
        here = held.back().get();
      }
      of_blocks.push_back(here);
    }
  }
};

template <element E, class StreamState>
rank_record run_rank(std::unique_ptr<transport> world, const training_request& r) {
  using trainer_type = trainer<E, StreamState>;
  const int rank = world->rank();
  const grid mesh =
      mesh_of({.data = r.data, .tensor = r.tensor, .expert = r.expert, .context = r.context}, rank);
  const communicator_options options{.sums = r.sums};
  const auto source = source_of(r);
  rank_record record;

  std::int64_t predicted_peak = 0;
  {
    const shapes_only dry;
    auto group = ranks<grid>::absent(mesh, options, r.pipeline, rank / mesh.size());
    const other_meshes others(group, r);
    trainer_type planned(group, r.shape, settings_of(r), others.of_blocks);
    planned.step(source);
    predicted_peak = memory_meter::of_this_rank().peak();
  }

  auto& meter = memory_meter::of_this_rank();
  const std::int64_t before = meter.live();
  meter.restart_peak();
  ranks<grid> group(std::move(world), mesh, options, r.pipeline);
  const other_meshes others(group, r);
  trainer_type run(group, r.shape, settings_of(r), others.of_blocks);
  const auto& parameters = run.parameters();
  record.state_bytes = meter.live() - before;
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
    record.norms.push_back(result.gradient_norm);
    if (i == 0) record.gradients = pieces_of(parameters, true);
  }
  record.operations = (kernel::product_operations() - operations_before) / r.steps;
  for (const auto& [key, row] : group.ledger().rows()) {
    record.traffic[joined(key.axis, ", ", key.call, ", ", key.phase)] = row.bytes / r.steps;
  }
  record.weights = pieces_of(parameters, false);
  compare_traffic(predicted, group, copied() - copied_before, r.steps, record.faults);
  if (meter.peak() - before != predicted_peak) {
    record.faults.push_back(joined("rank ", rank, ": ", predicted_peak,
                                   " bytes of memory predicted, ", meter.peak() - before,
                                   " at the most"));
  }
  return record;
}

template <element E>
rank_record run_rank_of(std::unique_ptr<transport> world, const training_request& r) {
  return r.split_sequence ? run_rank<E, stream_state::split_sequence>(std::move(world), r)
                          : run_rank<E, stream_state::whole>(std::move(world), r);
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

std::int64_t documents_in(const training_request& r, std::int32_t separator,
                          std::int64_t sequences) {
  return static_cast<std::int64_t>(documents_of_step(r, separator, sequences, 0).size());
}

training_outcome run_training(const training_request& r) {
  const int size = r.pipeline * r.data * r.expert * r.context * r.tensor;
  std::vector<rank_record> records(static_cast<std::size_t>(size));
  const delayed_links links(r.links);
  simulate(
      size,
      [&](std::unique_ptr<transport> world) {
        if (r.broken != sabotage::none) {
          world = std::make_unique<breaking_transport>(std::move(world), r.broken);
        }
        if (r.links != nullptr) {
          world = std::make_unique<delayed_transport>(std::move(world), links);
        }
        rank_record& mine = records[static_cast<std::size_t>(world->rank())];
        switch (r.element) {
          case element_kind::fp64:
            mine = run_rank_of<fp64>(std::move(world), r);
            break;
          case element_kind::fp32:
            mine = run_rank_of<fp32>(std::move(world), r);
            break;
          default:
            mine = run_rank_of<bf16>(std::move(world), r);
        }
      },
      r.options);

  training_outcome outcome;
  const auto all = [&](pieces rank_record::*member) {
    std::vector<pieces> of_ranks;
    for (auto& record : records) of_ranks.push_back(std::move(record.*member));
    return of_ranks;
  };
  outcome.initial = gathered(all(&rank_record::initial), "initial weights", outcome.faults);
  outcome.gradients = gathered(all(&rank_record::gradients), "gradients", outcome.faults);
  outcome.weights = gathered(all(&rank_record::weights), "weights", outcome.faults);
  outcome.losses = records[0].losses;
  outcome.norms = records[0].norms;
  outcome.parameters = records[0].parameters;
  outcome.owned = records[0].owned;
  outcome.state_bytes = records[0].state_bytes;
  outcome.operations = records[0].operations;
  outcome.traffic = records[0].traffic;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const rank_record& record = records[i];
    outcome.faults.insert(outcome.faults.end(), record.faults.begin(), record.faults.end());
    if (!same_bits(record.losses, outcome.losses) || !same_bits(record.norms, outcome.norms)) {
      outcome.faults.push_back(joined("rank ", i, " has other losses or norms than rank 0"));
    }
  }
  return outcome;
}

double difference(const global_values& a, const global_values& b, double floor) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (a.name != b.name || a.values.size() != b.values.size()) return infinite;
  const double scale = std::max(largest(a.values), floor);
  double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double apart = std::abs(a.values[i] - b.values[i]);
    if (!std::isfinite(apart)) return infinite;
    if (apart > 0) most = std::max(most, apart / scale);
  }
  return most;
}

double difference(const global_tensors& a, const global_tensors& b, double floor) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t t = 0; t < a.size(); ++t) most = std::max(most, difference(a[t], b[t], floor));
  return most;
}

global_tensors key_biases(const global_tensors& all, bool wanted) {
  global_tensors some;
  for (const auto& tensor : all) {
    if (tensor.name.ends_with(".key.bias") == wanted) some.push_back(tensor);
  }
  return some;
}

std::string most_different(const global_tensors& a, const global_tensors& b, double floor) {
  double most = 0;
  std::string name;
  for (std::size_t t = 0; t < std::min(a.size(), b.size()); ++t) {
    const double here = difference(a[t], b[t], floor);
    if (here > most) {
      most = here;
      name = a[t].name;
    }
  }
  return name;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() && !a.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    if (!std::isfinite(apart)) return std::numeric_limits<double>::infinity();
    if (apart > 0) most = std::max(most, apart / std::max(std::abs(a[i]), 1e-300));
  }
  return most;
}

double gradient_floor(const global_tensors& gradients) {
  double most = 0;
  for (const auto& tensor : gradients) most = std::max(most, largest(tensor.values));
  return 1e-8 * most;
}

bool equal_bits(const global_tensors& a, const global_tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t t = 0; t < a.size(); ++t) {
    if (a[t].name != b[t].name || !same_bits(a[t].values, b[t].values)) return false;
  }
  return true;
}

differences compare(const training_outcome& a, const training_outcome& b) {
  differences d;
  d.initial_equal = equal_bits(a.initial, b.initial);
  d.loss = difference(std::vector{a.losses.at(0)}, std::vector{b.losses.at(0)});
  const double floor = gradient_floor(a.gradients);
  const auto a_gradients = key_biases(a.gradients, false);
  const auto b_gradients = key_biases(b.gradients, false);
  d.gradients = difference(a_gradients, b_gradients, floor);
  d.worst_gradient = most_different(a_gradients, b_gradients, floor);
  const auto a_weights = key_biases(a.weights, false);
  const auto b_weights = key_biases(b.weights, false);
  d.weights = difference(a_weights, b_weights, 1e-3);
  d.worst_weight = most_different(a_weights, b_weights, 1e-3);
  const auto a_noise = key_biases(a.gradients, true);
  const auto b_noise = key_biases(b.gradients, true);
  if (!a_noise.empty()) {
    d.noise = std::max(gradient_floor(a_noise), gradient_floor(b_noise)) / floor;
    d.noisy_weights = difference(key_biases(a.weights, true), key_biases(b.weights, true), 1e-3);
  }
  d.losses = difference(a.losses, b.losses);
  d.norms = difference(a.norms, b.norms);
  return d;
}

std::string missed_bars(const differences& d) {
  std::string missed;
  const auto bar = [&](const char* what, double value, double limit,
                       const std::string& worst = {}) {
    if (value <= limit) return;
    std::ostringstream text;
    text << what << ' ' << worst << (worst.empty() ? "" : " ") << value << " over " << limit
         << "; ";
    missed += text.str();
  };
  if (!d.initial_equal) missed += "initial weights are not the same bits; ";
  bar("loss of step 1", d.loss, 1e-12);
  bar("gradients of step 1", d.gradients, 1e-10, d.worst_gradient);
  bar("weights", d.weights, 1e-10, d.worst_weight);
  bar("gradients of key biases", d.noise, 0x1p-53);
  bar("key biases", d.noisy_weights, 1.2e-7);
  bar("losses", d.losses, 1e-10);
  bar("norms", d.norms, 1e-10);
  return missed;
}

std::string text_of(const training_request& r) {
  const std::string contexts =
      r.context == 1
          ? std::string()
          : joined(", context ", r.context, ", heads parallel ", r.attention.heads_parallel,
                   ", window ", r.attention.ring_window, ", ", name_of(r.attention.order));
  return joined("data ", r.data, ", tensor ", r.tensor, r.split_sequence ? ", split sequence" : "",
                r.expert > 1 ? joined(", expert ", r.expert) : "",
                r.pipeline > 1 ? joined(", pipeline ", r.pipeline, " ", name_of(r.schedule)) : "",
                r.chunks > 1 ? joined(", chunks ", r.chunks) : "",
                r.shards.stage != shards::none ? joined(", shards ", name_of(r.shards.stage)) : "",
                r.shards.data_extent > 0 ? joined(" of ", r.shards.data_extent) : "",
                r.shards.overlap ? ", overlap" : "",
                r.recompute != recompute::none ? joined(", recompute ", name_of(r.recompute)) : "",
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
