// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <regex>
#include <utility>

#include "tenon/base/text.hpp"
#include "tenon/train/progress.hpp"
#include "tenon/train/table.hpp"

namespace pretrain_decoder {

namespace {

// Parameters of all blocks are alike: one line for each name, with the blocks counted.
struct folded_line {
  parameter_line line;
  std::int64_t count = 0;
};

std::vector<folded_line> folded(const std::vector<parameter_line>& lines) {
  static const std::regex block("blocks\\.[0-9]+\\.");
  std::vector<folded_line> all;
  for (parameter_line line : lines) {
    line.name = std::regex_replace(line.name, block, "blocks.*.");
    const auto same = std::find_if(all.begin(), all.end(), [&](const folded_line& other) {
      return other.line.name == line.name;
    });
    if (same == all.end()) {
      all.push_back({line, 1});
    } else {
      same->count += 1;
    }
  }
  return all;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::string start_table(const settings& run, const std::string& mesh, const std::string& device,
                        std::int64_t text_bytes, std::int64_t sequences, int threads,
                        const std::vector<parameter_line>& parameters,
                        const std::map<std::string, std::int64_t>& bytes_of_step,
                        std::int64_t predicted_memory) {
  using tenon::grouped;
  using tenon::joined;
  const auto& shape = run.shape;
  tenon::text_table facts({{""}, {""}});
  facts.row(
      {"model", joined(name_of(shape.form), ", ", shape.layers, " layers, hidden ", shape.hidden,
                       ", ", shape.heads, " heads, ", shape.kv_heads, " kv heads, ffn ", shape.ffn,
                       ", vocabulary ", shape.vocabulary, ", sequence ", shape.sequence)});
  if (shape.experts > 0) {
    facts.row({"experts", joined(shape.experts, " in ", shape.expert_blocks(), " of ", shape.layers,
                                 " blocks, ", shape.experts_per_token,
                                 " a token; bytes and "
                                 "memory below are those of balanced routing")});
  }
  facts.row({"parameters", joined(grouped(tenon::parameters(shape)), ", products in ",
                                  tenon::name_of(run.precision))});
  facts.row({"text", joined(grouped(text_bytes), " bytes, ", grouped(sequences), " sequences")});
  facts.row({"batch", joined(run.batch, " sequences a step, microbatch ", run.microbatch, ", ",
                             run.steps, " steps")});
  facts.row(
      {"mesh", joined(run.strategy.pipeline > 1 ? joined("pipeline ", run.strategy.pipeline, " x ")
                                                : std::string(),
                      mesh, ", ", threads, threads == 1 ? " thread" : " threads",
                      " a rank, sequence between blocks ",
                      run.strategy.split_sequence ? "split on tensor" : "whole")});
  if (!device.empty()) facts.row({"device", device});
  const auto& how = run.strategy;
  if (how.pipeline > 1) {
    facts.row({"schedule", joined(name_of(how.schedule),
                                  how.chunks > 1 ? joined(", ", how.chunks, " chunks a stage")
                                                 : std::string())});
  }
  if (how.shards != tenon::shards::none) {
    facts.row({"shards", joined(name_of(how.shards), " over ",
                                how.data_shard > 0 ? how.data_shard : how.data, " data ranks")});
  }
  if (how.recompute != tenon::recompute::none) {
    facts.row({"recompute", std::string(name_of(how.recompute))});
  }
  for (const auto& [axis, bytes] : bytes_of_step) {
    facts.row({joined("bytes, ", axis), joined(tenon::human_bytes(static_cast<double>(bytes)),
                                               " a step on the busiest rank (predicted)")});
  }
  facts.row({"memory", joined(tenon::human_bytes(static_cast<double>(predicted_memory)),
                              " on the fullest rank (predicted)")});

  tenon::text_table placed({{"parameter"},
                            {"count", tenon::column_side::right},
                            {"elements", tenon::column_side::right},
                            {"dims"},
                            {"owned as"},
                            {"used as"}});
  for (const folded_line& each : folded(parameters)) {
    placed.row({each.line.name, std::to_string(each.count), grouped(each.line.elements),
                each.line.dims, each.line.owner, each.line.use});
  }
  return facts.text() + "\n" + placed.text() + "\n";
}

std::string ledger_table(const std::vector<traffic_line>& lines) {
  tenon::text_table table({{"axis"},
                           {"collective"},
                           {"phase"},
                           {"calls", tenon::column_side::right},
                           {"predicted bytes", tenon::column_side::right},
                           {"counted bytes", tenon::column_side::right},
                           {"seconds", tenon::column_side::right}});
  for (const traffic_line& line : lines) {
    table.row({line.axis, line.call, line.phase, tenon::grouped(line.calls),
               (line.varies ? "at most " : "") + tenon::grouped(line.predicted),
               tenon::grouped(line.counted), tenon::detail::decimals(line.seconds, 2)});
  }
  if (lines.empty()) return "ledger: nothing was sent\n";
  return "ledger of the busiest rank\n" + table.text();
}

std::string profile_table(const std::vector<tenon::step_result>& steps, double operations) {
  const auto of = [&](auto member) {
    std::vector<double> values;
    for (const tenon::step_result& step : steps) values.push_back(step.*member);
    return median(std::move(values));
  };
  using tenon::step_result;
  const double whole = of(&step_result::seconds);
  tenon::text_table table({{"part of a step"},
                           {"milliseconds", tenon::column_side::right},
                           {"share", tenon::column_side::right}});
  const auto row = [&](const char* name, double seconds) {
    table.row(
        {name, tenon::detail::decimals(1e3 * seconds, 3),
         tenon::joined(tenon::detail::decimals(whole > 0 ? 100 * seconds / whole : 0, 1), " %")});
  };
  row("forward and backward", of(&step_result::forward_backward_seconds));
  row("reduction of gradients", of(&step_result::gradient_seconds));
  row("norm and optimizer", of(&step_result::optimizer_seconds));
  row("collectives, in all of these", of(&step_result::collective_seconds));
  row("step", whole);
  return "profile of rank 0, medians\n" + table.text() +
         tenon::joined("products: ", tenon::detail::decimals(operations / 1e9, 2),
                       " GFLOP a step on rank 0, ",
                       tenon::detail::decimals(whole > 0 ? operations / whole / 1e9 : 0, 1),
                       " GFLOP/s\n");
}

}  // namespace pretrain_decoder
