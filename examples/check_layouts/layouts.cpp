// SPDX-License-Identifier: Apache-2.0
#include "layouts.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "tenon/base/random.hpp"
#include "tenon/base/text.hpp"

namespace check_layouts {

using namespace tenon;
using tenon_test::training_request;

training_request model_of(block_form form) {
  training_request request;
  request.shape = {.form = form,
                   .layers = 8,
                   .heads = 8,
                   .kv_heads = 4,
                   .hidden = 32,
                   .ffn = 48,
                   .vocabulary = 64,
                   .sequence = 32};
  request.batch = 8;
  request.microbatch = 8;
  request.steps = 3;
  return request;
}

namespace {

struct extents {
  int data, pipeline, context, expert, tensor;
};

std::vector<extents> factorisations(int ranks) {
  std::vector<extents> all;
  const auto divisors = [](int of) {
    std::vector<int> found;
    for (int d = 1; d <= of; ++d) {
      if (of % d == 0) found.push_back(d);
    }
    return found;
  };
  for (const int data : divisors(ranks)) {
    for (const int pipeline : divisors(ranks / data)) {
      for (const int context : divisors(ranks / data / pipeline)) {
        for (const int expert : divisors(ranks / data / pipeline / context)) {
          all.push_back(
              {data, pipeline, context, expert, ranks / data / pipeline / context / expert});
        }
      }
    }
  }
  return all;
}

// The options, each a number from 0; an option that the extents make idle is not chosen: -1.
enum option {
  form,
  blocks,
  schedule,
  microbatch,
  divided,
  hybrid,
  overlap,
  attention,
  order,
  stream,
  again,
  packing,
  options
};
using choice = std::array<int, options>;

constexpr int values_of(option which) {
  constexpr int counts[] = {2, 3, 4, 3, 4, 2, 2, 3, 2, 3, 3, 2};
  return counts[which];
}

choice drawn(const extents& e, const random_stream& stream_of_draws, std::int64_t number) {
  choice all{};
  for (int i = 0; i < options; ++i) {
    const auto bits = stream_of_draws.bits(number * options + i);
    all[static_cast<std::size_t>(i)] =
        static_cast<int>(bits % static_cast<std::uint64_t>(values_of(static_cast<option>(i))));
  }
  if (e.pipeline == 1) all[schedule] = -1;
  if (e.data * e.expert == 1) all[divided] = all[overlap] = -1;
  if (e.data < 4 || all[divided] < 1) all[hybrid] = -1;
  if (e.context == 1) all[attention] = all[order] = -1;
  if (e.context < 4 && all[attention] == 2) all[attention] = 1;  // 2d needs both
  if (e.tensor == 1) all[stream] = -1;
  // Four tensor ranks may be a grid of 2 x 2, where nothing else cuts a sequence or has experts.
  if (all[stream] == 2 && e.tensor == 4 && e.context * e.expert == 1) all[blocks] = 0;
  if (all[stream] == 2 && (e.tensor != 4 || e.context * e.expert > 1)) all[stream] = 1;
  if (all[schedule] == 2 && 8 % (2 * e.pipeline) != 0) all[schedule] = 1;  // two chunks do not fit
  return all;
}

// The pairs (option, value, option, value) that a choice shows.
std::set<std::array<int, 4>> pairs_of(const choice& all) {
  std::set<std::array<int, 4>> pairs;
  for (int i = 0; i < options; ++i) {
    for (int j = i + 1; j < options; ++j) {
      const int a = all[static_cast<std::size_t>(i)];
      const int b = all[static_cast<std::size_t>(j)];
      if (a >= 0 && b >= 0) pairs.insert({i, a, j, b});
    }
  }
  return pairs;
}

layout_request made(const extents& e, const choice& all) {
  constexpr block_form forms[] = {block_form::gpt2, block_form::llama};
  constexpr shards stages[] = {shards::none, shards::optimizer, shards::gradients,
                               shards::parameters};
  constexpr recompute repeated[] = {recompute::none, recompute::attention, recompute::block};
  layout_request made{model_of(forms[all[form]]), "", 1e-10};
  training_request& r = made.request;
  if (all[blocks] > 0) {  // experts in every block, or in every second
    r.shape.experts = 8;
    r.shape.expert_stride = all[blocks];
  }
  if (e.pipeline > 1 || r.shape.experts > 0) made.bar = 1e-9;
  r.data = e.data;
  r.pipeline = e.pipeline;
  r.context = e.context;
  r.expert = e.expert;
  r.tensor = e.tensor;
  constexpr std::int64_t sizes[] = {1, 2, 8};
  r.microbatch = sizes[all[microbatch]];
  if (all[schedule] >= 0) {
    r.schedule = pipeline_schedules[static_cast<std::size_t>(all[schedule])];
    r.chunks = r.schedule == pipeline_schedule::interleaved && 8 % (2 * e.pipeline) == 0 ? 2 : 1;
  }
  if (all[divided] >= 0) {
    r.shards.stage = stages[all[divided]];
    r.shards.overlap = all[overlap] == 1;
    if (all[hybrid] == 1) r.shards.data_extent = e.data / 2;
  }
  if (all[attention] >= 0) {
    r.attention.order = all[order] == 0 ? token_order_kind::zigzag : token_order_kind::contiguous;
    r.attention.heads_parallel = all[attention] == 0 ? 1 : all[attention] == 1 ? e.context : 2;
    if (all[attention] == 0 && e.context == 4) r.attention.ring_window = 2;
  }
  r.split_sequence = all[stream] == 1;
  if (all[stream] == 2) {
    r.tensor = 1;
    r.tensor_grid = 2;
    made.bar = 1e-9;
  }
  r.recompute = repeated[all[again]];
  if (all[packing] == 1) r.document_separator = 5;
  made.name = tenon_test::text_of(r);
  return made;
}

}  // namespace

std::vector<layout_request> all_layouts(int ranks, bool few) {
  const auto every = factorisations(ranks);
  // What can occur at all: found by many draws, as the options depend on the extents.
  constexpr std::int64_t draws = 400;
  const random_stream numbers(1, "layouts");
  std::set<std::array<int, 4>> open;
  for (std::size_t f = 0; f < every.size(); ++f) {
    for (std::int64_t i = 0; i < draws; ++i) {
      const auto pairs =
          pairs_of(drawn(every[f], numbers, static_cast<std::int64_t>(f) * draws + i));
      open.insert(pairs.begin(), pairs.end());
    }
  }
  // For each factorisation in turn the draw that shows most pairs not yet seen, until all are.
  std::vector<layout_request> all;
  for (std::size_t round = 0; round == 0 || !open.empty(); ++round) {
    for (std::size_t f = 0; f < every.size(); ++f) {
      choice best{};
      std::size_t most = 0;
      for (std::int64_t i = 0; i < draws; ++i) {
        const choice one = drawn(every[f], numbers, static_cast<std::int64_t>(f) * draws + i);
        const auto pairs = pairs_of(one);
        const auto fresh = static_cast<std::size_t>(std::count_if(
            pairs.begin(), pairs.end(), [&](const auto& pair) { return open.contains(pair); }));
        if (i == 0 || fresh > most) {
          best = one;
          most = fresh;
        }
      }
      if (round > 0 && most == 0) continue;
      for (const auto& pair : pairs_of(best)) open.erase(pair);
      all.push_back(made(every[f], best));
    }
    if (few && round == 0) break;
  }
  if (few) {
    std::vector<layout_request> some;
    for (std::size_t i = 0; i < all.size(); i += 3) some.push_back(all[i]);
    return some;
  }
  return all;
}

}  // namespace check_layouts
