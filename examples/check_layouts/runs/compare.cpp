// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "record.hpp"
#include "tenon/base/text.hpp"

namespace tenon_test {

namespace {

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

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

training_outcome outcome_of(std::vector<rank_record> records) {
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
  outcome.balance_losses = records[0].balance_losses;
  outcome.norms = records[0].norms;
  outcome.parameters = records[0].parameters;
  outcome.owned = records[0].owned;
  outcome.state_bytes = records[0].state_bytes;
  outcome.operations = records[0].operations;
  for (const rank_record& record : records) {
    for (const auto member :
         {&run_costs::predicted_bytes, &run_costs::counted_bytes, &run_costs::predicted_state,
          &run_costs::counted_state, &run_costs::predicted_memory, &run_costs::counted_memory}) {
      outcome.costs.*member = std::max(outcome.costs.*member, record.costs.*member);
    }
  }
  outcome.traffic = records[0].traffic;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const rank_record& record = records[i];
    outcome.faults.insert(outcome.faults.end(), record.faults.begin(), record.faults.end());
    if (!same_bits(record.losses, outcome.losses) || !same_bits(record.norms, outcome.norms) ||
        !same_bits(record.balance_losses, outcome.balance_losses)) {
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
  d.balance_losses = difference(a.balance_losses, b.balance_losses);
  d.norms = difference(a.norms, b.norms);
  return d;
}

std::string missed_bars(const differences& d, double after) {
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
  bar("weights", d.weights, after, d.worst_weight);
  bar("gradients of key biases", d.noise, 0x1p-53);
  bar("key biases", d.noisy_weights, 1.2e-7);
  bar("losses", d.losses, after);
  bar("balancing losses", d.balance_losses, after);
  bar("norms", d.norms, after);
  return missed;
}

}  // namespace tenon_test
