// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whole training runs on simulated ranks, gathered so that runs on different meshes can be
// compared. Nothing here is a template: the trainers are compiled once, in decoder_trainers.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/element.hpp"
#include "tenon/communicate/delayed/links.hpp"
#include "tenon/communicate/simulated/group.hpp"
#include "tenon/communicate/sum_order.hpp"
#include "tenon/communicate/transport.hpp"
#include "tenon/layer/context.hpp"
#include "tenon/layer/sizes.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/model/shape.hpp"
#include "tenon/parallel/schedule/choice.hpp"
#include "tenon/parallel/schedule/table.hpp"
#include "tenon/parallel/shards.hpp"

namespace tenon_test {

using namespace tenon;

/// What is broken on purpose, to see that the comparison finds it.
enum class sabotage : std::uint8_t {
  none,
  lost_data_reduction,    ///< rank 0 of the data axis keeps its own gradients
  lost_tensor_reduction,  ///< rank 1 of the tensor axis keeps its own term of one activation
  scaled_gradient,        ///< the last rank's gradients grow by one millionth
};

struct training_request {
  element_kind element = element_kind::fp64;
  int data = 1;
  int tensor = 1;
  int expert = 1;
  int pipeline = 1;
  bool split_sequence = false;
  int tensor_grid = 0;  ///< side of the grid of ranks in the place of tensor; 0: none
  shard_settings shards{};
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  int chunks = 1;
  std::optional<schedule_table> own_schedule = {};
  tenon::recompute recompute = tenon::recompute::none;
  std::vector<std::pair<int, int>>
      block_meshes{};  ///< (data, tensor) of each block; none: the run's
  int context = 1;
  context_plan attention{};              ///< how attention works over the context axis
  std::int32_t document_separator = -1;  ///< packs documents when it is a token
  /// Not 0: the batch is the documents of so many sequences, each at the front of a sequence of its
  /// own; what is behind it does not count.
  std::int64_t documents_of = 0;
  std::int32_t separator_of_documents = -1;  ///< what ends each of them
  decoder_shape shape{};
  std::int64_t batch = 8;
  std::int64_t microbatch = 2;
  int steps = 5;
  sum_order sums = sum_order::any;
  double weight_decay = 0.1;
  double clip = 1;
  double balance = 0.01;
  int masked = 0;  ///< how the targets are masked; see `target_of`
  sabotage broken = sabotage::none;
  simulated_options options{};
  link_function links = nullptr;  ///< what they cost, when calls take time; see `delayed_transport`
  /// Makes the device that a rank computes on; none: the host.
  std::function<std::unique_ptr<device>()> make_device = nullptr;
};

/// A tensor of the model, gathered from its owners.
struct global_values {
  std::string name;
  std::vector<double> values;
};
using global_tensors = std::vector<global_values>;

/// What a run was predicted to send and to hold, and what it came to, on one rank or on the
/// busiest.
struct run_costs {
  std::int64_t predicted_bytes = 0;  ///< sent in a step
  std::int64_t counted_bytes = 0;
  std::int64_t predicted_state = 0;  ///< held between steps: parameters, gradients, optimizer
  std::int64_t counted_state = 0;
  std::int64_t predicted_memory = 0;  ///< held at the most
  std::int64_t counted_memory = 0;
};

struct training_outcome {
  global_tensors initial;
  global_tensors gradients;  ///< of step 1, reduced, not clipped
  global_tensors weights;    ///< after the last step
  std::vector<double> losses;
  std::vector<double> balance_losses;
  std::vector<double> norms;
  std::int64_t parameters = 0;
  std::int64_t owned = 0;        ///< by rank 0
  std::int64_t state_bytes = 0;  ///< live on rank 0 between steps
  double operations = 0;         ///< of rank 0's products in a step
  run_costs costs;               ///< each the largest of any rank
  /// Bytes that rank 0 sends in a step, by "axis, collective, phase".
  std::map<std::string, std::int64_t> traffic;
  std::vector<std::string> faults;  ///< predictions that failed, ranks that disagree
};

/// How many documents that end with `separator` the first `sequences` sequences of step 0 hold.
std::int64_t documents_in(const training_request& request, std::int32_t separator,
                          std::int64_t sequences);

/// Runs it on as many simulated ranks as its extents need.
training_outcome run_training(const training_request& request);
struct rank_record;
/// One rank's part of such a run, over a transport of as many ranks; see record.hpp. Collective.
rank_record record_of_rank(std::unique_ptr<transport> world, const training_request& request);

/// The largest of max |a - b| / max(max |a|, floor) over the tensors, and infinity where names,
/// sizes or finiteness differ.
double difference(const global_tensors& a, const global_tensors& b, double floor);
/// The same of the tensors of one name.
double difference(const global_values& a, const global_values& b, double floor);
/// The tensors that are key biases, or all others.
global_tensors key_biases(const global_tensors& all, bool wanted);
/// The name of the tensor that differs most.
std::string most_different(const global_tensors& a, const global_tensors& b, double floor);
double difference(const std::vector<double>& a, const std::vector<double>& b);
/// The floor for gradients: 1e-8 x the largest gradient of any tensor.
double gradient_floor(const global_tensors& gradients);
bool equal_bits(const global_tensors& a, const global_tensors& b);

/// The measures of `b` against the one rank `a`. The key biases of GPT-2 stand apart: attention
/// does not change when all keys move alike, so their gradients are rounding noise and no two runs
/// agree on its digits.
struct differences {
  bool initial_equal = false;
  double loss = 0;
  double gradients = 0;
  double weights = 0;
  double losses = 0;
  double balance_losses = 0;
  double norms = 0;
  double noise = 0;  ///< largest gradient of a key bias, in either run, over that of any tensor
  double noisy_weights = 0;  ///< differences of the key biases
  std::string worst_gradient;
  std::string worst_weight;
};
differences compare(const training_outcome& a, const training_outcome& b);
/// Empty when all bars are met: fp64, loss 1e-12 and gradients 1e-10 at step 1, the rest 1e-10
/// (`after`; 1e-9 for experts, pipelines and the grid) after the last step. The gradients of key
/// biases must be less than half a unit in the last place of the largest gradient. AdamW divides
/// them by no less than its epsilon, 1e-8: after 5 steps that moves two runs 2 x 5 x (2^-53 / 1e-8)
/// = 1.1e-7 rates apart at the most.
std::string missed_bars(const differences& d, double after = 1e-10);

/// "data 2, tensor 3, split sequence, gpt2, fp64", and how contexts are used when there are
/// several.
std::string text_of(const training_request& request);
/// The number of ranks that it needs.
int ranks_of(const training_request& request);

/// A small decoder whose sizes do not divide: 4 heads, 2 kv heads, vocabulary 257.
decoder_shape small_shape(block_form form);

}  // namespace tenon_test
