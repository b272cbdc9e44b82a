// SPDX-License-Identifier: Apache-2.0
#include "flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

#include "tenon/base/version.hpp"

namespace pretrain_decoder {
namespace {

using tenon::joined;

/// One flag: how it is written, what it takes (nothing: a switch), its default and its meaning.
struct flag {
  const char* name;
  const char* value;
  const char* standard;
  const char* example;  ///< what a message tells the user to type
  const char* meaning;
  const char* group;
};

constexpr flag flags[] = {
    {"--text", "PATH...", "", "/usr/share/common-licenses",
     "files or folders to learn from; tokens are bytes (required)", "Text"},
    {"--pack-documents", "BYTE", "off", "0",
     "number of the byte that ends a document; documents do not see one another", "Text"},
    {"--form", "gpt2|llama", "llama", "llama", "form of the block", "Model"},
    {"--layers", "N", "6", "6", "blocks", "Model"},
    {"--hidden", "N", "384", "384", "width of the stream between the blocks", "Model"},
    {"--heads", "N", "6", "6", "attention heads; they divide hidden", "Model"},
    {"--kv-heads", "N", "= heads", "6", "key-value heads; they divide heads", "Model"},
    {"--ffn", "N", "4 x hidden; llama: 8/3 x hidden up to a multiple of 64", "1024",
     "width of the feed-forward layer", "Model"},
    {"--experts", "E", "0", "8",
     "experts in place of the feed-forward layer, without biases; 0: none", "Model"},
    {"--experts-per-token", "K", "2", "2", "experts that each token chooses", "Model"},
    {"--expert-stride", "S", "1", "2", "every S-th block has experts, the others none", "Model"},
    {"--sequence", "N", "256", "256", "tokens in a sequence", "Model"},
    {"--batch", "N", "16", "16", "sequences in a global step", "Training"},
    {"--microbatch", "N", "= batch / ranks that share it", "4",
     "sequences in one forward of one rank", "Training"},
    {"--steps", "N", "200", "200", "steps of the run", "Training"},
    {"--warmup", "N", "20", "20", "steps in which the learning rate rises", "Training"},
    {"--learning-rate", "X", "1e-3", "1e-3", "its peak; it falls as a cosine to a tenth",
     "Training"},
    {"--weight-decay", "X", "0.1", "0.1", "of matrices, decoupled", "Training"},
    {"--balance-loss", "X", "0.01", "0.01", "weight of the experts' balancing loss", "Training"},
    {"--clip", "X", "1", "1", "largest norm of the gradient; inf: none", "Training"},
    {"--dropout", "P", "0", "0.1", "probability of an element to be dropped", "Training"},
    {"--seed", "N", "1", "1", "of weights, data order, dropout and sample", "Training"},
    {"--data", "D|R,S", "the ranks that are left", "1",
     "ranks on the data axis; R,S: R groups of S that divide what --shards says", "Parallelism"},
    {"--shards", "none|optimizer|gradients|parameters", "none", "parameters",
     "what the data ranks divide among them (ZeRO 0 to 3)", "Parallelism"},
    {"--pipeline", "P", "1", "1", "stages of a pipeline", "Parallelism"},
    {"--schedule", "gpipe|1f1b|interleaved|zero-bubble", "1f1b", "1f1b",
     "order of the work in a pipeline", "Parallelism"},
    {"--chunks", "V", "1", "1", "pieces of layers on a stage; more than 1 with interleaved",
     "Parallelism"},
    {"--expert-parallel", "X", "1", "1",
     "ranks on the expert axis: each has a part of the experts, and tokens of its own",
     "Parallelism"},
    {"--tensor", "T", "1", "1", "ranks on the tensor axis", "Parallelism"},
    {"--tensor-grid", "Q", "1", "2", "Q x Q ranks in the place of the tensor axis (SUMMA)",
     "Parallelism"},
    {"--split-sequence", nullptr, "off", "",
     "cut the sequence on the tensor axis between the products", "Parallelism"},
    {"--recompute", "none|attention|block", "none", "block",
     "what runs forward again in backward instead of being kept", "Execution"},
    {"--overlap", "auto|on|off", "auto", "auto",
     "exchange gradients, weights and cut sequences while layers run; auto: whichever measured "
     "faster",
     "Execution"},
    {"--context", "C", "1", "1", "ranks on the context axis, which share each sequence",
     "Parallelism"},
    {"--attention", "ring|ulysses|2d", "ring", "ring",
     "what contexts exchange: keys and values, heads, or both", "Parallelism"},
    {"--heads-parallel", "H", "1; ulysses: = context", "2",
     "contexts next to one another that exchange heads; with 2d", "Parallelism"},
    {"--ring-window", "W", "= context / heads-parallel", "1", "members of an inner ring",
     "Parallelism"},
    {"--order", "zigzag|contiguous", "zigzag", "zigzag", "of the tokens over contexts",
     "Parallelism"},
    {"--precision", "fp64|fp32|bf16", "fp32", "fp32", "element of weights and activations",
     "Execution"},
    {"--device", "auto|host|cuda", "auto", "auto",
     "what ranks compute on; auto: GPUs where every rank sees one, and it says so", "Execution"},
    {"--transport", "auto|mpi|staged", "auto", "auto",
     "how tensors cross between ranks; staged: from GPUs through the host", "Execution"},
    {"--sums", "any|fixed", "any", "any",
     "order of the sums over ranks; fixed: independent of bucket sizes", "Execution"},
    {"--threads", "N", "cores of this rank", "1", "threads of a rank", "Execution"},
    {"--timeout", "SECONDS", "600", "600", "until a rank that stays away ends the run",
     "Execution"},
    {"--log", "FILE", "none", "run.jsonl", "new file of JSON lines, one object a step", "Output"},
    {"--sample", "N", "200", "200", "bytes to generate at the end", "Output"},
    {"--profile", nullptr, "off", "", "print where the time of a step goes", "Output"},
    {"--quiet", nullptr, "off", "", "print no progress", "Output"},
};

const flag& of_name(std::string_view name) {
  return *std::find_if(std::begin(flags), std::end(flags),
                       [&](const flag& each) { return each.name == name; });
}

std::string with_default(const flag& each) {
  if (*each.standard == '\0') return each.meaning;
  return joined(each.meaning, " [", each.standard, "]");
}

[[noreturn]] void refuse(const std::string& sentence) {
  throw tenon::error(tenon::error_kind::bad_request, sentence);
}

std::string shown(std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \t\n'\"") == std::string_view::npos;
  return plain ? std::string(value) : joined("'", value, "'");
}

/// Letters put in, left out, changed, or neighbours exchanged, that make `a` into `b`.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const std::size_t changed = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

/// The word of `words` that was probably meant, or nothing when none is near.
std::string nearest(std::string_view typed, const std::vector<std::string>& words) {
  std::string best;
  std::size_t fewest = 1 + std::min<std::size_t>(3, typed.size() / 3);
  for (const std::string& word : words) {
    const std::size_t edits = edits_between(typed, word);
    if (edits < fewest) {
      fewest = edits;
      best = word;
    }
  }
  return best;
}

[[noreturn]] void refuse_unknown(const std::vector<std::string>& words) {
  const auto dashed = std::find_if(words.begin(), words.end(),
                                   [](auto& word) { return word.size() > 1 && word[0] == '-'; });
  if (dashed == words.end() || *dashed == "--") {
    const std::string& word = words.front() == "--" && words.size() > 1 ? words[1] : words.front();
    refuse(joined("the word ", shown(word),
                  " belongs to no flag; every setting is a flag with its value; type --help to see "
                  "them"));
  }
  const std::string name = dashed->substr(0, dashed->find('='));
  std::vector<std::string> names{"--help", "--version"};
  for (const flag& each : flags) names.emplace_back(each.name);
  const std::string near = nearest(name, names);
  refuse(joined(shown(name), " is not a flag of this program; ",
                near.empty() ? "type --help to see all of them"
                             : joined("type ", near, " if that was meant, or --help to see all")));
}

/// The values that were typed, by flag, with the readers that check them.
class typed_values {
 public:
  std::vector<std::string>& of(const flag& each) { return values_[each.name]; }

  bool has(std::string_view name) const { return !values_.at(std::string(name)).empty(); }
  const std::vector<std::string>& all(std::string_view name) const {
    return values_.at(std::string(name));
  }
  const std::string& text(std::string_view name) const { return all(name).front(); }

  /// A whole number between `least` and `most`, or `standard` when the flag is not given.
  template <class Number>
  Number whole(std::string_view name, Number standard, Number least, Number most) const {
    if (!has(name)) return standard;
    const std::string& typed = text(name);
    Number value{};
    const char* end = typed.data() + typed.size();
    const auto read = std::from_chars(typed.data(), end, value);
    // A minus does not belong to a number without a sign; it is a number all the same.
    const bool below = typed.size() > 1 && typed[0] == '-' &&
                       typed.find_first_not_of("0123456789", 1) == std::string::npos;
    const bool digits = below || (read.ptr == end && read.ec != std::errc::invalid_argument);
    const std::string allowed = joined("it is between ", least, " and ", most);
    if (!digits) {
      refuse(joined(name, " ", shown(typed), " is not a whole number; ", allowed, "; type ", name,
                    " ", of_name(name).example));
    }
    if (below || (read.ec == std::errc{} && value < least)) {
      refuse(joined(name, " ", typed, " is too small; ", allowed, "; type ", name, " ",
                    of_name(name).example));
    }
    if (read.ec != std::errc{} || value > most) {
      refuse(joined(name, " ", typed, " is too large; ", allowed, "; type ", name, " ",
                    of_name(name).example));
    }
    return value;
  }

  std::int64_t size(std::string_view name, std::int64_t standard, std::int64_t least = 1) const {
    return whole<std::int64_t>(name, standard, least, tenon::largest_size);
  }

  /// A number for which `fits` holds; `allowed` says in words which those are.
  template <class Fits>
  double number(std::string_view name, double standard, Fits fits, const char* allowed) const {
    if (!has(name)) return standard;
    const std::string& typed = text(name);
    double value = 0;
    const char* end = typed.data() + typed.size();
    const auto read = std::from_chars(typed.data(), end, value);
    if (read.ptr != end || read.ec == std::errc::invalid_argument || std::isnan(value)) {
      refuse(joined(name, " ", shown(typed), " is not a number; it is ", allowed, "; type ", name,
                    " ", of_name(name).example));
    }
    if (read.ec != std::errc{} || !fits(value)) {
      refuse(joined(name, " ", typed, " is out of range; it is ", allowed, "; type ", name, " ",
                    of_name(name).example));
    }
    return value;
  }

  /// The position of the word typed in the words that the flag takes.
  std::size_t choice(std::string_view name, std::string_view standard) const {
    std::vector<std::string> words;
    std::string_view rest = of_name(name).value;
    for (std::size_t bar = 0; bar != std::string_view::npos;) {
      bar = rest.find('|');
      words.emplace_back(rest.substr(0, bar));
      if (bar != std::string_view::npos) rest.remove_prefix(bar + 1);
    }
    const std::string typed = has(name) ? text(name) : std::string(standard);
    const auto found = std::find(words.begin(), words.end(), typed);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    std::string listed;
    for (std::size_t i = 0; i < words.size(); ++i) {
      listed += joined(i == 0 ? "" : i + 1 < words.size() ? ", " : " or ", words[i]);
    }
    const std::string near = nearest(typed, words);
    refuse(joined(name, " ", shown(typed), " is not known; it is ", listed, "; type ", name, " ",
                  near.empty() ? of_name(name).standard : near));
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

[[noreturn]] void refuse_without_value(const flag& each) {
  refuse(
      joined(each.name, " was given no value; one is needed; type ", each.name, " ", each.example));
}

/// CLI11's own complaint in our words: it is about a flag with too few or too many values.
[[noreturn]] void refuse_as_sentence(const CLI::ParseError& complaint, int count,
                                     const char* const* arguments) {
  const std::string said = complaint.what();  // begins with the flag, with or without its dashes
  const std::size_t start = std::min(said.find_first_not_of('-'), said.size());
  const std::string name = "--" + said.substr(start, said.find_first_of(": ", start) - start);
  for (const flag& each : flags) {
    if (each.name != name) continue;
    if (each.value == nullptr) {
      refuse(joined(each.name, " takes no value; it is on when it is given; type ", each.name,
                    " alone"));
    }
    const auto times = std::count_if(arguments + 1, arguments + count, [&](std::string_view word) {
      return word.substr(0, word.find('=')) == each.name;
    });
    if (times > 1) {
      refuse(joined(each.name, " was given ", times, " times; once is allowed; type ", each.name,
                    " ", each.example));
    }
    refuse_without_value(each);
  }
  refuse(joined("the flags cannot be read (", said, "); type --help to see them"));
}

/// --data D, or --data R,S.
void read_data_extent(const typed_values& typed, tenon::run_strategy& strategy) {
  constexpr int most = std::numeric_limits<int>::max();
  const std::size_t comma =
      typed.has("--data") ? typed.text("--data").find(',') : std::string::npos;
  if (comma == std::string::npos) {
    strategy.data = typed.whole("--data", 0, 1, most);
    return;
  }
  const std::string& both = typed.text("--data");
  int extents[2] = {0, 0};
  const char* at = both.data();
  const char* const ends[2] = {both.data() + comma, both.data() + both.size()};
  for (int i = 0; i < 2; ++i) {
    const auto read = std::from_chars(at, ends[i], extents[i]);
    if (read.ec != std::errc{} || read.ptr != ends[i] || extents[i] < 1) {
      refuse(joined("--data ", shown(both),
                    " is not two whole numbers R,S; each is at least 1; type --data 2,4"));
    }
    at = ends[i] + 1;
  }
  if (extents[0] > most / extents[1]) {
    refuse(joined("--data ", both, " is too large; R x S is at most ", most, "; type --data 2,4"));
  }
  strategy.data = extents[0] * extents[1];
  strategy.data_shard = extents[1];
}

/// Which contexts exchange heads, from the word of --attention and the number beside it.
void set_attention(const typed_values& typed, int most, tenon::run_strategy& strategy) {
  enum { ring, ulysses, both };
  const std::size_t form = typed.choice("--attention", "ring");
  const bool given = typed.has("--heads-parallel");
  const int wanted = typed.whole("--heads-parallel", 1, 1, most);
  const int alone = form == ulysses ? strategy.context : 1;
  if (form == both && !given) {
    refuse(
        "--attention 2d needs --heads-parallel; that many contexts exchange heads, and the ring is "
        "of the rest; type --heads-parallel 2");
  }
  if (form != both && given && wanted != alone) {
    refuse(joined("--heads-parallel ", wanted, " does not fit --attention ",
                  form == ulysses ? "ulysses, which has all contexts exchange heads"
                                  : "ring, in which no heads are exchanged",
                  "; type --attention 2d"));
  }
  strategy.heads_parallel = form == both ? wanted : alone;
  strategy.ring_window = typed.whole("--ring-window", 0, 1, most);
  constexpr tenon::token_order_kind orders[] = {tenon::token_order_kind::zigzag,
                                                tenon::token_order_kind::contiguous};
  strategy.order = orders[typed.choice("--order", "zigzag")];
}

settings checked(const typed_values& typed, const std::map<std::string, bool>& switches,
                 int ranks) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto not_negative = [](double x) { return x >= 0 && x < infinity; };
  settings run;
  run.text = typed.all("--text");

  run.document_separator = typed.whole<std::int32_t>("--pack-documents", -1, 0, 255);

  constexpr tenon::decoder_shape standard;
  constexpr tenon::block_form forms[] = {tenon::block_form::gpt2, tenon::block_form::llama};
  run.shape.form = forms[typed.choice("--form", "llama")];
  run.shape.layers = typed.size("--layers", standard.layers);
  run.shape.heads = typed.size("--heads", standard.heads);
  run.shape.kv_heads = typed.size("--kv-heads", 0);
  run.shape.hidden = typed.size("--hidden", standard.hidden);
  run.shape.ffn = typed.size("--ffn", 0);
  run.shape.experts = typed.size("--experts", 0, 0);
  run.shape.experts_per_token = typed.size("--experts-per-token", standard.experts_per_token);
  run.shape.expert_stride = typed.size("--expert-stride", standard.expert_stride);
  run.shape.sequence = typed.size("--sequence", standard.sequence);
  run.shape.dropout = typed.number(
      "--dropout", 0, [](double x) { return x >= 0 && x < 1; }, "at least 0 and less than 1");

  run.batch = typed.size("--batch", run.batch);
  run.microbatch = typed.size("--microbatch", 0);
  run.steps = typed.size("--steps", run.steps);
  run.warmup = typed.size("--warmup", run.warmup, 0);
  run.learning_rate =
      typed.number("--learning-rate", run.learning_rate, not_negative, "0 or more and finite");
  run.weight_decay =
      typed.number("--weight-decay", run.weight_decay, not_negative, "0 or more and finite");
  run.balance = typed.number("--balance-loss", run.balance, not_negative, "0 or more and finite");
  run.clip = typed.number(
      "--clip", run.clip, [](double x) { return x > 0; }, "more than 0, or inf for no limit");
  run.seed = typed.whole<std::uint64_t>("--seed", 1, 0, std::numeric_limits<std::uint64_t>::max());

  constexpr int most = std::numeric_limits<int>::max();
  read_data_extent(typed, run.strategy);
  constexpr tenon::shards stages[] = {tenon::shards::none, tenon::shards::optimizer,
                                      tenon::shards::gradients, tenon::shards::parameters};
  run.strategy.shards = stages[typed.choice("--shards", "none")];
  run.strategy.pipeline = typed.whole("--pipeline", 1, 1, most);
  run.strategy.schedule = tenon::pipeline_schedules[typed.choice("--schedule", "1f1b")];
  run.strategy.chunks = typed.whole("--chunks", 1, 1, most);
  constexpr tenon::recompute recomputed[] = {tenon::recompute::none, tenon::recompute::attention,
                                             tenon::recompute::block};
  run.strategy.recompute = recomputed[typed.choice("--recompute", "none")];
  constexpr overlap_choice overlaps[] = {overlap_choice::measured, overlap_choice::on,
                                         overlap_choice::off};
  run.overlap = overlaps[typed.choice("--overlap", "auto")];
  run.strategy.expert = typed.whole("--expert-parallel", 1, 1, most);
  run.strategy.tensor = typed.whole("--tensor", 1, 1, most);
  run.strategy.tensor_grid = typed.whole("--tensor-grid", 1, 1, most);
  run.strategy.context = typed.whole("--context", 1, 1, most);
  set_attention(typed, most, run.strategy);
  run.strategy.split_sequence = switches.at("--split-sequence");
  constexpr tenon::sum_order orders[] = {tenon::sum_order::any, tenon::sum_order::fixed};
  run.strategy.sums = orders[typed.choice("--sums", "any")];

  constexpr tenon::element_kind elements[] = {tenon::element_kind::fp64, tenon::element_kind::fp32,
                                              tenon::element_kind::bf16};
  run.precision = elements[typed.choice("--precision", "fp32")];
  constexpr device_choice devices[] = {device_choice::automatic, device_choice::host,
                                       device_choice::cuda};
  run.device = devices[typed.choice("--device", "auto")];
  constexpr transport_choice transports[] = {transport_choice::automatic, transport_choice::mpi,
                                             transport_choice::staged};
  run.transport = transports[typed.choice("--transport", "auto")];
  if (run.device == device_choice::host && run.transport == transport_choice::staged) {
    refuse(
        "--transport staged is for tensors on GPUs, and --device host has none; type "
        "--transport mpi");
  }
  if (run.device == device_choice::cuda && run.transport == transport_choice::mpi) {
    refuse(
        "--transport mpi takes host memory, and --device cuda keeps tensors on GPUs; type "
        "--transport staged");
  }
  run.threads = typed.whole("--threads", 0, 1, 4096);
  run.timeout = typed.number(
      "--timeout", run.timeout, [](double x) { return x > 0 && x <= 1e9; },
      "more than 0 and at most 1e9 seconds");

  if (typed.has("--log")) run.log = typed.text("--log");
  run.sample = typed.size("--sample", run.sample, 0);
  run.profile = switches.at("--profile");
  run.quiet = switches.at("--quiet");

  // Each value is in order by itself; from here on, what they are together.
  run.shape = tenon::completed(run.shape);
  tenon::check(run.shape);
  run.strategy = tenon::laid_out(run.strategy, ranks);
  if (run.microbatch == 0) {
    const std::int64_t sharing =
        std::int64_t{run.strategy.data} * run.strategy.expert * run.strategy.tensor_grid;
    run.microbatch = run.batch / sharing + (run.batch % sharing != 0 ? 1 : 0);
  }
  tenon::require(run.microbatch <= run.batch, "--microbatch ", run.microbatch,
                 " does not fit --batch ", run.batch, "; it is between 1 and ", run.batch,
                 "; type --microbatch ", run.batch);
  const double widest = static_cast<double>(tenon::largest_activation(run.shape, 1));
  tenon::require(widest * static_cast<double>(run.microbatch) < 0x1p59, "--microbatch ",
                 run.microbatch, " of --sequence ", run.shape.sequence,
                 " makes tensors of more than 2^59 elements; fewer are allowed; type a smaller "
                 "--microbatch or --sequence");
  tenon::require(!run.text.empty(),
                 "--text is missing; it names the files or folders to learn "
                 "from; type --text ",
                 of_name("--text").example);
  return run;
}

}  // namespace

request read_flags(int count, const char* const* arguments, int ranks) {
  const std::string version = joined("pretrain_decoder, tenon ", tenon::version.major_number, ".",
                                     tenon::version.minor_number, ".", tenon::version.patch_number);
  CLI::App parser(
      "Trains a decoder on text, over the ranks that mpirun starts. --data, --pipeline, --context, "
      "--expert-parallel and --tensor say how it is spread; their product is the number of ranks. "
      "Defaults stand in brackets.",
      "mpirun -n RANKS pretrain_decoder");
  parser.set_help_flag("--help", "print this and end; also -h")->group("Help");
  parser.set_version_flag("--version", version, "print the version and end")->group("Help");
  parser.allow_extras();  // they get a sentence of ours

  typed_values typed;
  std::map<std::string, bool> switches;
  for (const flag& each : flags) {
    if (each.value == nullptr) {
      parser.add_flag(each.name, switches[each.name], with_default(each))
          ->disable_flag_override()
          ->group(each.group);
      continue;
    }
    // Everything is taken as text, so that a wrong number gets a sentence of ours, too.
    CLI::Option* option = parser.add_option(each.name, typed.of(each), with_default(each));
    option->type_name(each.value)->group(each.group);
    const bool many = std::string_view(each.value).ends_with("...");
    option->expected(1, many ? 1 << 20 : 1)->allow_extra_args(false);
  }

  try {
    parser.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return {{}, parser.help()};
  } catch (const CLI::CallForVersion&) {
    return {{}, version + "\n"};
  } catch (const CLI::ParseError& complaint) {
    refuse_as_sentence(complaint, count, arguments);
  }
  // A flag that stands where a value should: the value was forgotten.
  for (const flag& each : flags) {
    if (each.value == nullptr) continue;
    for (const std::string& value : typed.of(each)) {
      if (value.substr(0, 2) == "--" || (value.empty() && *each.value != 'N')) {
        refuse_without_value(each);
      }
    }
  }
  // Not a short flag of the parser: it would read -hidden as -h.
  const std::vector<std::string> rest = parser.remaining();
  if (std::find(rest.begin(), rest.end(), "-h") != rest.end()) return {{}, parser.help()};
  if (!rest.empty()) refuse_unknown(rest);
  return {checked(typed, switches, ranks), ""};
}

}  // namespace pretrain_decoder
