// SPDX-License-Identifier: Apache-2.0
//
// Trains a decoder on text, over MPI ranks: mpirun -n 4 pretrain_decoder --data 2 --tensor 2
// --text FOLDER. The flags are in flags.cpp; the model in tenon/model; the loop is below.
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "flags.hpp"
#include "report.hpp"
#include "run.hpp"
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/communicate/staged.hpp"
#include "tenon/kernel/product_log.hpp"
#include "tenon/kernel/threads.hpp"
#include "tenon/memory/keep_pages.hpp"
#include "tenon/train/batches.hpp"
#include "tenon/train/progress.hpp"
#include "tenon/train/sample_text.hpp"
#include "tenon/train/step_log.hpp"
#include "tenon/train/text.hpp"

namespace pretrain_decoder {

namespace {

// The signal that asked the run to end, 0 when none did.
volatile std::sig_atomic_t interrupted = 0;
void remember_signal(int number) { interrupted = number; }

// Exchanges of the program's own, in no ledger: the element-wise maximum over all ranks.
void largest_of_all(any_ranks& group, std::vector<std::int64_t>& values) {
  if (group.size() == 1) return;
  group.everyone().group().run({.call = tenon::collective::all_reduce,
                                .element = tenon::element_kind::int64,
                                .reduction = tenon::reduction_kind::maximum,
                                .from = values.data(),
                                .to = values.data(),
                                .count = static_cast<std::int64_t>(values.size()),
                                .bookkeeping = true,
                                .axis = "all",
                                .tensor = "report"});
}

// This rank among those of its node, and their number.
struct place_on_node {
  int rank = 0;
  int size = 1;
};
place_on_node on_this_node() {
  MPI_Comm node = MPI_COMM_NULL;
  place_on_node place;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &place.rank);
  MPI_Comm_size(node, &place.size);
  MPI_Comm_free(&node);
  return place;
}

// Collective: the GPU that this rank computes on, or none. Ranks of a node take its GPUs in turn;
// all ranks compute on GPUs, or none does.
std::unique_ptr<tenon::device> device_of(const settings& run, tenon::transport& world) {
  if (run.device == device_choice::host) return nullptr;
  const std::int64_t here = gpus_here();
  std::int64_t least = -here;
  if (world.size() > 1) {
    world.run({.call = tenon::collective::all_reduce,
               .element = tenon::element_kind::int64,
               .reduction = tenon::reduction_kind::maximum,
               .from = &least,
               .to = &least,
               .count = 1,
               .bookkeeping = true,
               .axis = "all",
               .tensor = "devices"});
  }
  least = -least;
  if (least == 0) {
    tenon::require(run.device != device_choice::cuda, "--device cuda was asked for, and ",
                   here == 0 ? why_no_gpu() : "another rank sees no GPU", "; type --device host");
    if (here > 0 && world.rank() == 0) {
      tenon::log(tenon::log_level::warning, "--device auto took host: not every rank sees a GPU");
    }
    return nullptr;
  }
  const place_on_node place = on_this_node();
  return make_gpu(static_cast<int>(place.rank % here), run.precision);
}

// Cores that this rank may run on.
int cores_of_this_rank() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  return std::max(1, CPU_COUNT(&mask));
}

int threads_of_this_rank(const settings& run, int rank) {
  const int cores = cores_of_this_rank();
  const int local = on_this_node().size;
  const int threads = run.threads > 0 ? run.threads : std::max(1, cores / local);
  if (threads > cores && rank == 0) {
    tenon::log(tenon::log_level::warning, "--threads ", threads, " was asked for and a rank has ",
               cores, cores == 1 ? " core" : " cores",
               "; type mpirun --bind-to none, or mpirun --map-by slot:PE=", threads);
  }
  return threads;
}

// Runs something on the first rank alone; when it fails, all ranks fail alike, with its sentence.
template <class F>
void on_first_rank(any_ranks& group, F&& f) {
  std::string sentence;
  std::vector<std::int64_t> told{0, 0};  // length of the sentence, and its kind
  if (group.rank() == 0) {
    try {
      f();
    } catch (const tenon::error& e) {
      sentence = e.what();
      told = {static_cast<std::int64_t>(sentence.size()), static_cast<std::int64_t>(e.kind())};
    }
  }
  largest_of_all(group, told);
  if (told[0] == 0) return;
  sentence.resize(static_cast<std::size_t>(told[0]));
  if (group.size() > 1) {
    group.everyone().group().run({.call = tenon::collective::broadcast,
                                  .to = sentence.data(),
                                  .count = told[0],
                                  .bookkeeping = true,
                                  .axis = "all",
                                  .tensor = "report"});
  }
  throw tenon::error(static_cast<tenon::error_kind>(told[1]), sentence);
}

void require_same_text(any_ranks& group, const tenon::training_text& text) {
  const auto print = static_cast<std::int64_t>(text.fingerprint() >> 1);
  std::vector<std::int64_t> both{print, -print};
  largest_of_all(group, both);
  tenon::require(
      both[0] == -both[1],
      "--text: the ranks read different bytes; give a path that is the same on all hosts");
}

// A text of each stage, told to all ranks.
std::vector<std::string> texts_of_stages(any_ranks& group, const std::string& mine) {
  std::vector<std::string> all(static_cast<std::size_t>(group.stages()));
  all[static_cast<std::size_t>(group.stage())] = mine;
  if (group.stages() == 1) return all;
  auto& line = group.pipeline().group();
  for (int stage = 0; stage < group.stages(); ++stage) {
    std::string& text = all[static_cast<std::size_t>(stage)];
    auto size = static_cast<std::int64_t>(text.size());
    line.run({.call = tenon::collective::broadcast,
              .element = tenon::element_kind::int64,
              .to = &size,
              .count = 1,
              .peer = stage,
              .bookkeeping = true,
              .axis = "pipeline",
              .tensor = "report"});
    text.resize(static_cast<std::size_t>(size));
    line.run({.call = tenon::collective::broadcast,
              .to = text.data(),
              .count = size,
              .peer = stage,
              .bookkeeping = true,
              .axis = "pipeline",
              .tensor = "report"});
  }
  return all;
}

// The lines of all stages' texts, each once, in the order of the stages.
std::vector<std::string> lines_of_stages(any_ranks& group, const std::string& mine) {
  std::vector<std::string> all;
  for (const std::string& text : texts_of_stages(group, mine)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(line);
    }
  }
  return all;
}

// The words between tabs.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; std::getline(text, word, '\t');) words.push_back(word);
  return words;
}

// The rows of a step's traffic on any stage: axis, collective, phase.
std::vector<traffic_line> rows_of_all(any_ranks& group, const tenon::traffic_prices& of_step) {
  std::string mine;
  for (const auto& [key, row] : of_step.rows()) {
    const auto& [axis, call, phase] = key;
    mine += tenon::joined(axis, "\t", call, "\t", phase, "\t", row.varies ? "varies" : "", "\n");
  }
  std::vector<traffic_line> rows;
  auto lines = lines_of_stages(group, mine);
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) {
    const auto words = words_of(line);
    rows.push_back(
        {.axis = words[0], .call = words[1], .phase = words[2], .varies = words.size() > 3});
  }
  return rows;
}

// What the ledger has counted, beside what was predicted for the steps done; rows without a call
// are left out.
std::vector<traffic_line> traffic_lines(any_ranks& group, const tenon::traffic_prices& of_steps,
                                        std::vector<traffic_line> lines) {
  std::vector<std::int64_t> numbers;
  for (const traffic_line& line : lines) {
    const auto found = group.ledger().rows().find(std::tuple(
        std::string_view(line.axis), std::string_view(line.call), std::string_view(line.phase)));
    const tenon::ledger_row counted =
        found == group.ledger().rows().end() ? tenon::ledger_row{} : found->second;
    const auto priced = of_steps.rows().find({line.axis, line.call, line.phase});
    const std::int64_t bytes = priced == of_steps.rows().end() ? 0 : priced->second.most;
    numbers.insert(numbers.end(), {counted.calls, counted.bytes, bytes,
                                   static_cast<std::int64_t>(counted.seconds * 1e6)});
  }
  largest_of_all(group, numbers);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].calls = numbers[4 * i];
    lines[i].counted = numbers[4 * i + 1];
    lines[i].predicted = numbers[4 * i + 2];
    lines[i].seconds = static_cast<double>(numbers[4 * i + 3]) * 1e-6;
  }
  std::erase_if(lines, [](const traffic_line& line) { return line.calls + line.predicted == 0; });
  return lines;
}

// The parameters of all stages.
std::vector<parameter_line> parameters_of_all(any_ranks& group, any_run& trained) {
  std::string mine;
  for (const parameter_line& line : trained.parameter_lines()) {
    mine += tenon::joined(line.name, "\t", line.dims, "\t", line.owner, "\t", line.use, "\t",
                          line.elements, "\n");
  }
  std::vector<parameter_line> lines;
  for (const std::string& line : lines_of_stages(group, mine)) {
    const auto words = words_of(line);
    lines.push_back({words[0], words[1], words[2], words[3], std::stoll(words[4])});
  }
  return lines;
}

// Continues a piece of the text by `run.sample` bytes; every rank takes part and gets the text.
std::string sample(any_run& trained, const settings& run, const tenon::training_text& text) {
  const std::size_t prompt = std::min<std::size_t>(32, text.bytes.size());
  const auto begin = static_cast<std::ptrdiff_t>((text.bytes.size() - prompt) / 2);
  std::vector<std::uint8_t> bytes(text.bytes.begin() + begin,
                                  text.bytes.begin() + begin + static_cast<std::ptrdiff_t>(prompt));
  std::vector<std::int32_t> tokens(bytes.begin(), bytes.end());
  const tenon::random_stream stream(run.seed, "sample");
  for (std::int64_t i = 0; i < run.sample; ++i) {
    tokens.push_back(trained.next_token(tokens, [&](std::span<const float> logits) {
      return tenon::next_token(logits, 0.7, stream, i);
    }));
    bytes.push_back(static_cast<std::uint8_t>(tokens.back()));
  }
  const std::span<const std::uint8_t> all(bytes);
  return tenon::joined("sample, continuing \"", tenon::printable(all.first(prompt)), "\":\n",
                       tenon::printable(all.subspan(prompt)), "\n");
}

// The bytes of a step so far, for the axes given.
std::vector<std::pair<std::string, std::int64_t>> bytes_of_step(
    any_ranks& group, const std::vector<std::string>& axes) {
  std::vector<std::pair<std::string, std::int64_t>> all;
  const auto counted = group.ledger().bytes_since_mark();
  for (const std::string& axis : axes) {
    const auto found = counted.find(axis);
    all.emplace_back(axis, found == counted.end() ? 0 : found->second);
  }
  return all;
}

// Measures steps with and without overlap, in turns, and keeps what was faster. It knows what the
// steps have sent: messages instead of collectives where products overlap.
class overlap_chooser {
 public:
  overlap_chooser(any_run& trained, overlap_choice asked, bool anything_to_overlap)
      : trained_(&trained), measuring_(asked == overlap_choice::measured && anything_to_overlap) {
    for (const bool on : {false, true}) {
      trained.set_overlap(on);
      of_step_.push_back(trained.predicted_traffic());
    }
    set(asked == overlap_choice::on);
  }
  /// What a step sends as things stand, and what any step may send, as rows.
  const tenon::traffic_prices& of_step() const { return of_step_[on_ ? 1 : 0]; }
  tenon::traffic_prices of_any_step() const {
    auto all = of_step();
    if (measuring_) all.add_rows(of_step_[on_ ? 0 : 1]);
    return all;
  }
  /// What the steps done have sent.
  tenon::traffic_prices of_steps() const {
    tenon::traffic_prices all;
    for (const std::size_t on : {std::size_t{0}, std::size_t{1}})
      all.add_rows(of_step_[on], steps_with_[on]);
    return all;
  }
  /// What was taken, as a line for the report; empty before, or when nothing was measured.
  const std::string& took() const { return took_; }
  // After each step; the ranks decide alike, by the slowest of them.
  void after(any_ranks& group, double seconds) {
    ++steps_with_[on_ ? 1 : 0];
    if (!measuring_) return;
    // The first step of all is longer for other reasons.
    if (steps_++ > 0) times_[on_ ? 1 : 0].push_back(seconds);
    if (steps_ <= 2 * steps_each) return set(!on_);
    measuring_ = false;
    std::vector<std::int64_t> nanoseconds;
    for (auto& times : times_) {
      std::sort(times.begin(), times.end());
      nanoseconds.push_back(static_cast<std::int64_t>(times[times.size() / 2] * 1e9));
    }
    largest_of_all(group, nanoseconds);
    set(nanoseconds[1] < nanoseconds[0]);
    took_ = tenon::joined(
        "overlap: auto took ", on_ ? "on" : "off", "; a step took ",
        tenon::detail::decimals(static_cast<double>(nanoseconds[1]) * 1e-6, 2), " ms with it, ",
        tenon::detail::decimals(static_cast<double>(nanoseconds[0]) * 1e-6, 2), " ms without\n");
  }

 private:
  static constexpr int steps_each = 4;
  void set(bool on) {
    on_ = on;
    trained_->set_overlap(on);
  }

  any_run* trained_;
  bool measuring_;
  bool on_ = false;
  int steps_ = 0;
  std::string took_;
  std::vector<double> times_[2];  // without, with
  std::int64_t steps_with_[2] = {};
  std::vector<tenon::traffic_prices> of_step_;
};

int train(tenon::mpi_session& mpi, settings run) {
  auto world = mpi.world();
  const bool first = world->rank() == 0;
  const auto gpu = device_of(run, *world);
  const tenon::computes_on here(gpu.get());
  std::string device;
  if (gpu != nullptr) {
    // The staged transport waits for the device in every call: nothing is hidden behind another.
    tenon::require(run.overlap != overlap_choice::on,
                   "--overlap on was asked for on GPUs, whose staged transport does not overlap; "
                   "type --overlap off");
    run.overlap = overlap_choice::off;
    tenon::require(world->size() == 1 || run.strategy.sums == tenon::sum_order::any,
                   "--sums fixed was asked for over ranks on GPUs, where it is not built yet; type "
                   "--sums any, or --device host");
    device =
        tenon::joined(gpu->name(), world->size() > 1 ? ", transport staged: through the host" : "");
    world = std::make_unique<tenon::staged_transport>(std::move(world));
  }
  const tenon::training_text text = tenon::read_text(run.text);
  const tenon::batches data(text.bytes, run.shape.sequence, run.batch, run.seed,
                            run.shape.vocabulary);
  const auto laid_out = make_ranks(std::move(world), run.strategy,
                                   {.sums = run.strategy.sums, .timeout = run.timeout});
  any_ranks& group = *laid_out;
  require_same_text(group, text);
  tenon::step_log log;
  on_first_rank(group, [&] {
    if (!run.log.empty()) log = tenon::step_log(run.log);
  });
  const int threads = threads_of_this_rank(run, group.rank());
  tenon::kernel::set_threads(threads);
  tenon::keep_pages();

  const tenon::trainer_settings how{
      .batch = run.batch,
      .microbatch = run.microbatch,
      .rate = {.peak = run.learning_rate, .warmup = run.warmup, .steps = run.steps},
      .optimizer = {.weight_decay = run.weight_decay},
      .clip = run.clip,
      .balance = run.balance,
      .seed = run.seed,
      .shards = {.stage = run.strategy.shards,
                 .data_extent = run.strategy.data_shard,
                 // The measured choice tries both, from the third step on.
                 .overlap = run.overlap == overlap_choice::on ||
                            (run.overlap == overlap_choice::measured && run.steps > 2)},
      .schedule = run.strategy.schedule,
      .chunks = run.strategy.chunks,
      .recompute = run.strategy.recompute,
      .context = {run.strategy.order, run.strategy.heads_parallel, run.strategy.ring_window},
      .document_separator = run.document_separator};
  const tenon::token_source source =
      [&](std::int64_t step, tenon::region places, std::span<std::int32_t> inputs,
          std::span<std::int32_t> targets) { data.fill(step, places, inputs, targets); };

  // The same program on shapes alone tells what it will hold, before any of it is there.
  std::vector<std::int64_t> predicted_memory(1);
  {
    const tenon::shapes_only dry;
    make_run(run.precision, group, run.shape, how)->step(source);
    predicted_memory[0] = tenon::memory_meter::of_this_rank().peak();
  }
  largest_of_all(group, predicted_memory);

  const auto trained = make_run(run.precision, group, run.shape, how);
  overlap_chooser overlap(*trained, run.overlap, group.size() > group.stages());
  const auto rows = rows_of_all(group, overlap.of_any_step());
  std::vector<std::string> axes;
  for (const traffic_line& row : rows) {
    if (std::find(axes.begin(), axes.end(), row.axis) == axes.end()) axes.push_back(row.axis);
  }
  const auto parameters = parameters_of_all(group, *trained);
  if (!run.quiet) {
    const auto by_axis = overlap.of_step().bytes_by_axis();
    std::vector<std::int64_t> bytes;
    for (const std::string& axis : axes) {
      bytes.push_back(by_axis.contains(axis) ? by_axis.at(axis) : 0);
    }
    largest_of_all(group, bytes);
    std::map<std::string, std::int64_t> busiest;
    for (std::size_t i = 0; i < axes.size(); ++i) busiest[axes[i]] = bytes[i];
    if (first) {
      std::fputs(
          start_table(run, group.mesh_text(), device, text.bytes_of_files(),
                      data.order().sequences(), threads, parameters, busiest, predicted_memory[0])
              .c_str(),
          stdout);
      std::fflush(stdout);
    }
  }

  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
  tenon::progress lines(run.steps);
  std::vector<tenon::step_result> results;
  int asked_to_end = 0;
  const double operations_before = tenon::kernel::product_operations();
  for (std::int64_t i = 0; i < run.steps && asked_to_end == 0; ++i) {
    const tenon::step_result result = trained->step(source);
    results.push_back(result);
    overlap.after(group, result.seconds);
    tenon::step_record record{
        .step = result.step + 1,
        .loss = result.loss,
        .gradient_norm = result.gradient_norm,
        .tokens = result.tokens,
        .step_seconds = result.seconds,
        .tokens_per_second = static_cast<double>(result.tokens) / result.seconds,
        .collective_seconds = result.collective_seconds,
        .bytes = bytes_of_step(group, axes)};
    std::vector<std::int64_t> exchanged{interrupted};
    for (const auto& [axis, bytes] : record.bytes) exchanged.push_back(bytes);
    largest_of_all(group, exchanged);
    asked_to_end = static_cast<int>(exchanged[0]);
    for (std::size_t a = 0; a < record.bytes.size(); ++a) record.bytes[a].second = exchanged[a + 1];
    if (first) {
      log.write(record);
      if (!run.quiet) lines.show(stdout, record);
    }
  }
  const double operations = tenon::kernel::product_operations() - operations_before;
  const auto steps = static_cast<std::int64_t>(results.size());

  std::vector<std::int64_t> held{tenon::memory_meter::of_this_rank().peak()};
  const auto traffic = traffic_lines(group, overlap.of_steps(), rows);
  largest_of_all(group, held);
  if (first && !run.quiet) {
    std::fputs(("\n" + ledger_table(traffic)).c_str(), stdout);
    std::fputs(
        tenon::joined("memory of the fullest rank: predicted ", tenon::grouped(predicted_memory[0]),
                      " bytes, counted ", tenon::grouped(held[0]), "\n")
            .c_str(),
        stdout);
    std::fputs(overlap.took().c_str(), stdout);
  }
  if (first && run.profile) {
    std::fputs(("\n" + profile_table(results, operations / static_cast<double>(
                                                               std::max<std::int64_t>(steps, 1))))
                   .c_str(),
               stdout);
  }
  if (asked_to_end != 0) {
    if (first) {
      tenon::log(tenon::log_level::warning, "interrupted after step ", steps, " of ", run.steps);
    }
    return 128 + asked_to_end;
  }
  if (run.sample > 0) {
    const std::string generated = sample(*trained, run, text);
    if (first) std::fputs(("\n" + generated).c_str(), stdout);
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace pretrain_decoder

int main(int argc, char** argv) {
  return tenon::run_program(argc, argv, [&](tenon::mpi_session& mpi) {
    const auto world = mpi.world();
    const auto asked = pretrain_decoder::read_flags(argc, argv, world->size());
    if (!asked.answer.empty()) {
      if (world->rank() == 0) std::fputs(asked.answer.c_str(), stdout);
      return 0;
    }
    return pretrain_decoder::train(mpi, asked.run);
  });
}
