// SPDX-License-Identifier: Apache-2.0
//
// The speed and the memory of a training step: build/bench/training [--json FILE], alone or under
// mpirun. The share of the products is what the step's own matrix products take when they are
// called straight through CBLAS, over the time of the step; both are measured in turns.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pretrain_decoder/run.hpp"
#include "replay.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/memory/keep_pages.hpp"
#include "tenon/parallel/strategy.hpp"
#include "tenon/train/progress.hpp"
#include "tenon/train/table.hpp"

namespace {

using tenon::joined;

struct settings {
  tenon::decoder_shape shape;
  tenon::run_strategy strategy;
  tenon::element_kind precision = tenon::element_kind::fp32;
  std::int64_t batch = 4;
  std::int64_t microbatch = 0;
  std::int64_t steps = 9;
  int threads = 2;
  std::string json;
};

// Reads the flags; what --help prints is returned.
std::string read_flags(int argc, char** argv, int ranks, settings& run) {
  CLI::App parser("Times training steps of a decoder, and its matrix products alone.",
                  "mpirun -n RANKS training");
  std::string form = "llama";
  std::string precision = "fp32";
  const auto size = [&](const char* name, auto& value, const char* meaning) {
    parser.add_option(name, value, meaning)->capture_default_str()->check(CLI::PositiveNumber);
  };
  parser.add_option("--form", form, "form of the block")
      ->capture_default_str()
      ->check(CLI::IsMember({"gpt2", "llama"}));
  size("--layers", run.shape.layers, "blocks");
  size("--hidden", run.shape.hidden, "width of the stream");
  size("--heads", run.shape.heads, "attention heads");
  parser.add_option("--kv-heads", run.shape.kv_heads, "key-value heads; 0: as many as heads");
  parser.add_option("--ffn", run.shape.ffn, "width of the feed-forward layer; 0: as the program");
  size("--sequence", run.shape.sequence, "tokens in a sequence");
  size("--batch", run.batch, "sequences in a global step");
  parser.add_option("--microbatch", run.microbatch,
                    "sequences in one forward of one rank; 0: all of its own");
  parser.add_option("--data", run.strategy.data, "ranks on the data axis; 0: those left");
  size("--tensor", run.strategy.tensor, "ranks on the tensor axis");
  size("--tensor-grid", run.strategy.tensor_grid, "side of a square of ranks in its place");
  parser.add_flag("--split-sequence", run.strategy.split_sequence, "cut the sequence on tensor");
  parser.add_option("--precision", precision, "element")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp64", "fp32", "bf16"}));
  size("--threads", run.threads, "threads of a rank");
  size("--steps", run.steps, "steps that are timed, after two that are not");
  parser.add_option("--json", run.json, "write the numbers to this file, too");
  try {
    parser.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return parser.help();
  } catch (const CLI::ParseError& complaint) {
    throw tenon::error(tenon::error_kind::bad_request, complaint.what());
  }
  run.shape.form = form == "gpt2" ? tenon::block_form::gpt2 : tenon::block_form::llama;
  run.precision = precision == "fp64"   ? tenon::element_kind::fp64
                  : precision == "bf16" ? tenon::element_kind::bf16
                                        : tenon::element_kind::fp32;
  run.shape = tenon::completed(run.shape);
  tenon::check(run.shape);
  run.strategy = tenon::laid_out(run.strategy, ranks);
  if (run.microbatch == 0) {
    run.microbatch = (run.batch - 1) / (run.strategy.data * run.strategy.tensor_grid) + 1;
  }
  return "";
}

// Bytes of a line of /proc/self/status, 0 where there is none.
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

double largest(double mine) {
  double all = mine;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}
std::int64_t largest(std::int64_t mine) {
  std::int64_t all = mine;
  MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

// Median, and the least and the largest of all.
struct spread {
  double median = 0;
  double least = 0;
  double most = 0;

  explicit spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    least = values.front();
    most = values.back();
  }
  nlohmann::json json() const { return {{"median", median}, {"min", least}, {"max", most}}; }
  std::string milliseconds() const {
    const auto text = [](double seconds) { return tenon::detail::decimals(1e3 * seconds, 1); };
    return joined(text(median), " ms  (", text(least), " to ", text(most), ")");
  }
};

int measure(tenon::mpi_session& mpi, const settings& run) {
  auto world = mpi.world();
  const int ranks = world->size();
  const bool first = world->rank() == 0;
  const auto group = pretrain_decoder::make_ranks(std::move(world), run.strategy, {.timeout = 600});
  tenon::kernel::set_threads(run.threads);

  const tenon::trainer_settings how{.batch = run.batch, .microbatch = run.microbatch};
  const tenon::token_source source = [&](std::int64_t step, tenon::region places,
                                         std::span<std::int32_t> inputs,
                                         std::span<std::int32_t> targets) {
    const tenon::random_stream random(1, "tokens", static_cast<std::uint64_t>(step));
    const std::int64_t begin = places.begin * run.shape.sequence;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto place = begin + static_cast<std::int64_t>(i);
      inputs[i] = static_cast<std::int32_t>(random.bits(place) % 256);
      targets[i] = static_cast<std::int32_t>(random.bits(place + 1) % 256);
    }
  };

  std::int64_t predicted = 0;
  {
    const tenon::shapes_only dry;
    pretrain_decoder::make_run(run.precision, *group, run.shape, how)->step(source);
    predicted = tenon::memory_meter::of_this_rank().peak();
  }

  // BLAS takes its own memory and threads with the first product: that belongs to the start.
  bench::replay({}, run.threads).square_seconds(512);
  tenon::keep_pages();
  const std::int64_t resident_at_start = status_bytes("VmRSS");
  const auto trained = pretrain_decoder::make_run(run.precision, *group, run.shape, how);
  std::vector<tenon::kernel::product_record> records;
  trained->step(source);
  {
    tenon::kernel::product_log log;
    trained->step(source);
    records = log.records();
  }
  const std::int64_t counted = tenon::memory_meter::of_this_rank().peak();
  const std::int64_t resident = status_bytes("VmHWM") - resident_at_start;

  bench::replay products(records, run.threads);
  std::vector<double> step_seconds;
  std::vector<double> with_threads_of_blas;
  std::vector<double> with_threads_of_ours;
  std::vector<double> square_seconds;
  std::vector<double> collective_seconds;
  constexpr std::int64_t square = 2048;
  products.seconds();
  products.square_seconds(square);
  for (std::int64_t i = 0; i < run.steps; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const tenon::step_result result = trained->step(source);
    step_seconds.push_back(largest(result.seconds));
    collective_seconds.push_back(result.collective_seconds);
    const bench::replay::times alone = products.seconds();
    with_threads_of_blas.push_back(largest(alone.threads_of_blas + alone.tiles));
    with_threads_of_ours.push_back(largest(alone.threads_of_ours + alone.tiles));
    square_seconds.push_back(largest(products.square_seconds(square)));
  }

  const spread step(step_seconds);
  const spread by_blas(with_threads_of_blas);
  const spread by_parts(with_threads_of_ours);
  const bool blas_is_faster = by_blas.median <= by_parts.median;
  const spread& alone = blas_is_faster ? by_blas : by_parts;
  const auto& product_seconds = blas_is_faster ? with_threads_of_blas : with_threads_of_ours;
  const spread large(square_seconds);
  const spread collectives(collective_seconds);
  std::vector<double> shares;
  for (std::size_t i = 0; i < step_seconds.size(); ++i) {
    shares.push_back(product_seconds[i] / step_seconds[i]);
  }
  const spread share(shares);
  const std::int64_t tokens = run.batch * run.shape.sequence;
  const double model_operations = tenon::step_operations(run.shape, tokens);
  const double square_operations = 2.0 * square * square * square;
  const bool exact = largest(std::int64_t{predicted == counted ? 0 : 1}) == 0;
  const std::int64_t most_predicted = largest(predicted);
  const std::int64_t most_counted = largest(counted);
  const std::int64_t most_resident = largest(resident);
  const double over = static_cast<double>(most_resident) / static_cast<double>(most_counted) - 1;
  const bool judged = most_counted >= 200'000'000 && most_resident > 0;
  const bool near = !judged || (over < 0.1 && over > -0.1);

  nlohmann::json numbers{{"form", name_of(run.shape.form)},
                         {"layers", run.shape.layers},
                         {"hidden", run.shape.hidden},
                         {"heads", run.shape.heads},
                         {"kv_heads", run.shape.kv_heads},
                         {"ffn", run.shape.ffn},
                         {"sequence", run.shape.sequence},
                         {"batch", run.batch},
                         {"microbatch", run.microbatch},
                         {"precision", tenon::name_of(run.precision)},
                         {"parameters", tenon::parameters(run.shape)},
                         {"ranks", ranks},
                         {"data", run.strategy.data},
                         {"tensor", run.strategy.tensor},
                         {"split_sequence", run.strategy.split_sequence},
                         {"threads", run.threads},
                         {"steps", run.steps},
                         {"step_seconds", step.json()},
                         {"collective_seconds", collectives.json()},
                         {"tokens_per_second", static_cast<double>(tokens) / step.median},
                         {"products_seconds", alone.json()},
                         {"products_seconds_threads_of_blas", by_blas.json()},
                         {"products_seconds_cut_in_parts", by_parts.json()},
                         {"products_calls", products.calls()},
                         {"products_operations", products.operations()},
                         {"share_of_products", alone.median / step.median},
                         {"share_of_products_spread", share.json()},
                         {"square_seconds", large.json()},
                         {"square_operations_per_second", square_operations / large.median},
                         {"model_operations", model_operations},
                         {"model_operations_per_second", model_operations / step.median},
                         {"share_of_square_rate", model_operations / step.median / ranks /
                                                      (square_operations / large.median)},
                         {"memory_predicted", most_predicted},
                         {"memory_counted", most_counted},
                         {"memory_equal", exact},
                         {"resident_at_start", largest(resident_at_start)},
                         {"resident_over_start", most_resident},
                         {"resident_over_counted", over},
                         {"blas_threads_set", bench::blas_threads_can_be_set()}};

  if (first) {
    const auto giga = [](double x) { return tenon::detail::decimals(x / 1e9, 1); };
    const auto percent = [](double x) { return tenon::detail::decimals(100 * x, 1) + " %"; };
    tenon::text_table table({{""}, {""}});
    table.row(
        {"run",
         joined(name_of(run.shape.form), ", ", tenon::grouped(tenon::parameters(run.shape)),
                " parameters, ", tenon::name_of(run.precision), ", ", tokens, " tokens a step, ",
                group->mesh_text(), ", ", run.threads, run.threads == 1 ? " thread" : " threads",
                " a rank, medians of ", run.steps, " steps (least to most)")});
    table.row({"step", step.milliseconds()});
    table.row({"tokens a second", tenon::grouped(static_cast<std::int64_t>(
                                      static_cast<double>(tokens) / step.median))});
    table.row({"in collectives", collectives.milliseconds()});
    table.row({"its products, threads of BLAS", by_blas.milliseconds()});
    table.row({"its products, cut in parts", by_parts.milliseconds()});
    table.row(
        {"share of the products", joined(percent(alone.median / step.median), "  (",
                                         percent(share.least), " to ", percent(share.most), ")")});
    table.row({"large square", joined(giga(square_operations / large.median),
                                      " GFLOP/s a rank (sgemm of ", square, ")")});
    table.row({"products", joined(giga(products.operations()), " GFLOP a step and rank, ",
                                  giga(products.operations() / alone.median), " GFLOP/s alone, ",
                                  products.calls(), " calls")});
    table.row({"model", joined(giga(model_operations), " GFLOP a step, ",
                               giga(model_operations / step.median), " GFLOP/s, ",
                               percent(model_operations / step.median / ranks /
                                       (square_operations / large.median)),
                               " of the large square's rate")});
    table.row({"memory", joined("predicted ", tenon::grouped(most_predicted), ", counted ",
                                tenon::grouped(most_counted), exact ? ": equal" : ": NOT EQUAL")});
    table.row({"resident over start",
               joined(tenon::grouped(most_resident), ", ", percent(over), " over counted",
                      !judged ? " (judged from 200 MB on)"
                      : near  ? ", within 10 %"
                              : ", NOT WITHIN 10 %")});
    std::fputs(table.text().c_str(), stdout);
    if (!run.json.empty()) {
      std::ofstream file(run.json);
      file << numbers.dump(2) << "\n";
      file.flush();
      if (!file) throw tenon::error(tenon::error_kind::failed, "--json cannot be written");
    }
  }
  return exact && near ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_program(argc, argv, [&](tenon::mpi_session& mpi) {
    settings run;
    const auto world = mpi.world();
    const std::string help = read_flags(argc, argv, world->size(), run);
    if (!help.empty()) {
      if (world->rank() == 0) std::fputs(help.c_str(), stdout);
      return 0;
    }
    return measure(mpi, run);
  });
}
