// SPDX-License-Identifier: Apache-2.0
#include "flags.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "refusal.hpp"
#include "tenon/base/random.hpp"

using namespace tenon;
using pretrain_decoder::settings;

namespace {

/// Splits at single spaces; '' is an empty word.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at) == "''" ? "" : line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

pretrain_decoder::request read(const std::vector<std::string>& words, int ranks) {
  std::vector<const char*> arguments{"pretrain_decoder"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return pretrain_decoder::read_flags(static_cast<int>(arguments.size()), arguments.data(), ranks);
}

settings run_of(const std::string& line, int ranks = 8) {
  const auto asked = read(words_of(line), ranks);
  BOOST_TEST(asked.answer == "");
  return asked.run;
}

/// What is said to flags that follow a text.
std::string refused(const std::string& line, int ranks = 8) {
  return refusal_of([&] { read(words_of("--text a " + line), ranks); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(defaults) {
  const settings run = run_of("--text a", 4);
  BOOST_TEST(run.text.size() == 1U);
  BOOST_TEST((run.shape == decoder_shape{.form = block_form::llama,
                                         .layers = 6,
                                         .heads = 6,
                                         .kv_heads = 6,
                                         .hidden = 384,
                                         .ffn = 1024,
                                         .vocabulary = 256,
                                         .sequence = 256,
                                         .dropout = 0}));
  BOOST_TEST((run.strategy == run_strategy{.data = 4, .tensor = 1}));
  BOOST_TEST(run.batch == 16);
  BOOST_TEST(run.microbatch == 4);
  BOOST_TEST(run.steps == 200);
  BOOST_TEST(run.warmup == 20);
  BOOST_TEST(run.learning_rate == 1e-3);
  BOOST_TEST(run.weight_decay == 0.1);
  BOOST_TEST(run.clip == 1);
  BOOST_TEST(run.seed == 1U);
  BOOST_TEST((run.precision == element_kind::fp32));
  BOOST_TEST(run.threads == 0);
  BOOST_TEST(run.timeout == 600);
  BOOST_TEST(run.log == "");
  BOOST_TEST(run.sample == 200);
  BOOST_TEST(!run.profile);
  BOOST_TEST(!run.quiet);
}

BOOST_AUTO_TEST_CASE(every_flag_is_heard) {
  const settings run = run_of(
      "--text a b --form gpt2 --layers 3 --hidden 96 --heads 4 --kv-heads 2 --ffn 100 --sequence "
      "32 "
      "--batch 9 --microbatch 2 --steps 50 --warmup 0 --learning-rate 3e-4 --weight-decay 0 --clip "
      "inf --dropout 0.25 --seed 18446744073709551615 --data 4 --tensor 2 --split-sequence "
      "--precision bf16 --sums fixed --threads 3 --timeout 2.5 --log x.jsonl --sample 0 --profile "
      "--quiet --text c");
  BOOST_TEST(run.text == (std::vector<std::string>{"a", "b", "c"}),
             boost::test_tools::per_element());
  BOOST_TEST((run.shape == decoder_shape{.form = block_form::gpt2,
                                         .layers = 3,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .hidden = 96,
                                         .ffn = 100,
                                         .vocabulary = 256,
                                         .sequence = 32,
                                         .dropout = 0.25}));
  BOOST_TEST(
      (run.strategy ==
       run_strategy{.data = 4, .tensor = 2, .split_sequence = true, .sums = sum_order::fixed}));
  BOOST_TEST(run.batch == 9);
  BOOST_TEST(run.microbatch == 2);
  BOOST_TEST(run.steps == 50);
  BOOST_TEST(run.warmup == 0);
  BOOST_TEST(run.learning_rate == 3e-4);
  BOOST_TEST(run.weight_decay == 0);
  BOOST_TEST(run.clip == std::numeric_limits<double>::infinity());
  BOOST_TEST(run.seed == std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST((run.precision == element_kind::bf16));
  BOOST_TEST(run.threads == 3);
  BOOST_TEST(run.timeout == 2.5);
  BOOST_TEST(run.log == "x.jsonl");
  BOOST_TEST(run.sample == 0);
  BOOST_TEST(run.profile);
  BOOST_TEST(run.quiet);
}

BOOST_AUTO_TEST_CASE(flags_of_experts_are_heard) {
  const settings none = run_of("--text a");
  BOOST_TEST(none.shape.experts == 0);
  BOOST_TEST(none.balance == 0.01);
  BOOST_TEST(none.strategy.expert == 1);
  const settings run = run_of(
      "--text a --experts 5 --experts-per-token 3 --expert-stride 2 --expert-parallel 4 "
      "--balance-loss 0.5",
      8);
  BOOST_TEST(run.shape.experts == 5);
  BOOST_TEST(run.shape.experts_per_token == 3);
  BOOST_TEST(run.shape.expert_stride == 2);
  BOOST_TEST(run.shape.expert_blocks() == 3);
  BOOST_TEST(run.balance == 0.5);
  BOOST_TEST((run.strategy == run_strategy{.data = 2, .tensor = 1, .expert = 4}));
  BOOST_TEST(run.microbatch == 2);  // 16 sequences over 2 x 4 ranks
  BOOST_TEST(refused("--experts 1") ==
             "2: --experts-per-token 2 of --experts 1 cannot be chosen; it is between 1 and 1; "
             "type --experts-per-token 1");
  BOOST_TEST(refused("--experts 4 --expert-stride 7") ==
             "2: --expert-stride 7 leaves no block of --layers 6 with experts; it is between 1 and "
             "6; type --expert-stride 1");
  BOOST_TEST(refused("--experts -1").find("2: --experts -1 is too small") == 0U);
  BOOST_TEST(refused("--balance-loss -1").find("2: --balance-loss -1 is out of range") == 0U);
  BOOST_TEST(refused("--expert-parallel 3", 4).find("needs a multiple of 3 ranks") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(other_spellings_of_the_same) {
  BOOST_TEST(run_of("--hidden=60 --text=a").shape.hidden == 60);
  BOOST_TEST(run_of("--text a --form=gpt2").shape.ffn == 1536);
  BOOST_TEST(run_of("--text a --precision fp64", 1).microbatch == 16);
  BOOST_TEST((run_of("--text a --precision fp64").precision == element_kind::fp64));
  BOOST_TEST(run_of("--text a --batch 8 --data 3", 3).microbatch == 3);  // 3, 3, 2
  BOOST_TEST(run_of("--text a --batch 3").microbatch == 1);              // five ranks have none
  BOOST_TEST(run_of("--text a --tensor 8").strategy.data == 1);
  BOOST_TEST(run_of("--text [a,b] --quiet").text.front() == "[a,b]");
}

BOOST_AUTO_TEST_CASE(a_grid_in_the_place_of_the_tensor_axis) {
  const settings run = run_of("--text a --tensor-grid 2 --batch 16");
  BOOST_TEST((run.strategy == run_strategy{.data = 2, .tensor_grid = 2}));
  BOOST_TEST(run.microbatch == 4);  // data 2 x 2 rows
  BOOST_TEST((run_of("--text a --tensor-grid 1 --tensor 4").strategy ==
              run_strategy{.data = 2, .tensor = 4}));
  BOOST_TEST(
      refused("--tensor-grid 2 --tensor 2") ==
      "2: --tensor-grid 2 does not go with --tensor 2; the tensor axis is a line of ranks or "
      "a square of them; type one of the two");
  BOOST_TEST(refused("--tensor-grid 2 --split-sequence") ==
             "2: --tensor-grid 2 does not go with --split-sequence; the stream is cut on the grid "
             "already; type --tensor-grid 2 alone");
  BOOST_TEST(refused("--tensor-grid 3") ==
             "2: the strategy --tensor-grid 3 needs a multiple of 9 ranks, and this run has 8; the "
             "product of all extents is the number of ranks; start it with mpirun -n 9, or type "
             "--data 2 --tensor-grid 2");
  BOOST_TEST(refused("--tensor-grid 0").find("2: --tensor-grid 0 is too small") == 0U);
}

BOOST_AUTO_TEST_CASE(attention_over_contexts) {
  const auto strategy = [](const std::string& words) {
    return run_of("--text a " + words, 8).strategy;
  };
  BOOST_TEST((strategy("--context 8") == run_strategy{.data = 1, .context = 8}));
  BOOST_TEST((strategy("--context 4 --attention ulysses") ==
              run_strategy{.data = 2, .context = 4, .heads_parallel = 4}));
  BOOST_TEST((strategy("--context 8 --attention 2d --heads-parallel 2 --ring-window 2 --order "
                       "contiguous") == run_strategy{.data = 1,
                                                     .context = 8,
                                                     .heads_parallel = 2,
                                                     .ring_window = 2,
                                                     .order = token_order_kind::contiguous}));
  BOOST_TEST(run_of("--text a").document_separator == -1);
  BOOST_TEST(run_of("--text a --pack-documents 0").document_separator == 0);
  BOOST_TEST(refused("--context 8 --attention 2d") ==
             "2: --attention 2d needs --heads-parallel; that many contexts exchange heads, and the "
             "ring is of the rest; type --heads-parallel 2");
  BOOST_TEST(refused("--context 8 --heads-parallel 2") ==
             "2: --heads-parallel 2 does not fit --attention ring, in which no heads are "
             "exchanged; type --attention 2d");
  BOOST_TEST(refused("--context 8 --attention ulysses --heads-parallel 2") ==
             "2: --heads-parallel 2 does not fit --attention ulysses, which has all contexts "
             "exchange heads; type --attention 2d");
  BOOST_TEST(refused("--context 8 --attention 2d --heads-parallel 3")
                 .find("2: --heads-parallel 3 does not divide --context 8") == 0U);
  BOOST_TEST(refused("--context 8 --ring-window 3")
                 .find("2: --ring-window 3 does not divide the ring of 8 ranks") == 0U);
  BOOST_TEST(refused("--attention rign") ==
             "2: --attention rign is not known; it is ring, ulysses or 2d; type --attention ring");
  BOOST_TEST(refused("--pack-documents 256") ==
             "2: --pack-documents 256 is too large; it is between 0 and 255; type "
             "--pack-documents 0");
}

BOOST_AUTO_TEST_CASE(help_and_version_are_answers) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"-h"}, {"--hidden", "3", "--help"}}) {
    const std::string help = read(words, 7).answer;
    for (const char* flag : {"--text PATH...",
                             "--form gpt2|llama",
                             "--layers N",
                             "--hidden N",
                             "--heads N",
                             "--kv-heads N",
                             "--ffn N",
                             "--experts E",
                             "--experts-per-token K",
                             "--expert-stride S",
                             "--sequence N",
                             "--batch N",
                             "--microbatch N",
                             "--steps N",
                             "--warmup N",
                             "--learning-rate X",
                             "--weight-decay X",
                             "--balance-loss X",
                             "--clip X",
                             "--dropout P",
                             "--seed N",
                             "--data D|R,S",
                             "--shards none|optimizer|gradients|parameters",
                             "--pipeline P",
                             "--schedule gpipe|1f1b|interleaved|zero-bubble",
                             "--chunks V",
                             "--recompute none|attention|block",
                             "--overlap auto|on|off",
                             "--expert-parallel X",
                             "--tensor T",
                             "--split-sequence",
                             "--context C",
                             "--tensor-grid Q",
                             "--attention ring|ulysses|2d",
                             "--heads-parallel H",
                             "--ring-window W",
                             "--order zigzag|contiguous",
                             "--pack-documents BYTE",
                             "--precision fp64|fp32|bf16",
                             "--device auto|host|cuda",
                             "--transport auto|mpi|staged",
                             "--sums any|fixed",
                             "--threads N",
                             "--timeout SECONDS",
                             "--log FILE",
                             "--sample N",
                             "--profile",
                             "--quiet",
                             "--help",
                             "--version"}) {
      // A long one has its meaning on the next line.
      const std::size_t at = help.find(std::string("\n  ") + flag);
      BOOST_TEST_REQUIRE(at != std::string::npos, flag);
      const char behind = help[at + 3 + std::string_view(flag).size()];
      BOOST_TEST((behind == ' ' || behind == '\n'), flag);
    }
    BOOST_TEST(help.find("--resume") == std::string::npos);  // not built, so not there
  }
  BOOST_TEST(read({"--version"}, 1).answer.find("pretrain_decoder, tenon ") == 0U);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none) {
  const std::string size = "; it is between 1 and 2147483647; type ";
  BOOST_TEST(refused("--hidden abc") ==
             "2: --hidden abc is not a whole number" + size + "--hidden 384");
  BOOST_TEST(refused("--hidden 0") == "2: --hidden 0 is too small" + size + "--hidden 384");
  BOOST_TEST(refused("--layers -5") == "2: --layers -5 is too small" + size + "--layers 6");
  BOOST_TEST(refused("--hidden=-5") == "2: --hidden -5 is too small" + size + "--hidden 384");
  BOOST_TEST(refused("--hidden 99999999999999999999") ==
             "2: --hidden 99999999999999999999 is too large" + size + "--hidden 384");
  BOOST_TEST(refused("--hidden -99999999999999999999") ==
             "2: --hidden -99999999999999999999 is too small" + size + "--hidden 384");
  BOOST_TEST(refused("--batch 2147483648") ==
             "2: --batch 2147483648 is too large" + size + "--batch 16");
  for (const char* word : {"1e3", "384.", "3.5", "+4", "0x10", "1,000", "-", "--4", "4k", "nan"}) {
    BOOST_TEST(refused(std::string("--sequence ") + word).find("2: --sequence ") == 0U, word);
  }
  BOOST_TEST(refused("--steps ''") == "2: --steps '' is not a whole number" + size + "--steps 200");
  BOOST_TEST(refused("--seed -1") ==
             "2: --seed -1 is too small; it is between 0 and 18446744073709551615; type --seed 1");
  BOOST_TEST(refused("--seed 18446744073709551616").find("is too large") != std::string::npos);
  BOOST_TEST(refused("--threads 0") ==
             "2: --threads 0 is too small; it is between 1 and 4096; type --threads 1");
  BOOST_TEST(refused("--data 0").find("2: --data 0 is too small") == 0U);
  BOOST_TEST(refused("--data 2,x --shards gradients") ==
             "2: --data 2,x is not two whole numbers R,S; each is at least 1; type --data 2,4");
  BOOST_TEST(refused("--data 2,0 --shards gradients").find("is not two whole numbers R,S") !=
             std::string::npos);
  BOOST_TEST(refused("--data 65536,65536 --shards gradients").find("is too large; R x S") !=
             std::string::npos);
  BOOST_TEST(refused("--tensor -1").find("2: --tensor -1 is too small") == 0U);
  BOOST_TEST(refused("--warmup -1") ==
             "2: --warmup -1 is too small; it is between 0 and 2147483647; type --warmup 20");
  BOOST_TEST(refused("--sample -1").find("it is between 0 and") != std::string::npos);
  for (const char* flag : {"layers", "hidden", "heads", "kv-heads", "ffn", "sequence", "batch",
                           "microbatch", "steps", "data", "tensor", "threads"}) {
    const std::string name = std::string("--") + flag;
    for (const char* value : {" 0", " -1", " x", " 1.5", " ''", " 99999999999999999999"}) {
      BOOST_TEST(refused(name + value).find("2: " + name + " ") == 0U, name + value);
    }
  }
}

BOOST_AUTO_TEST_CASE(real_numbers_out_of_range) {
  BOOST_TEST(
      refused("--dropout 1") ==
      "2: --dropout 1 is out of range; it is at least 0 and less than 1; type --dropout 0.1");
  BOOST_TEST(refused("--dropout -0.1").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--dropout nan").find("is not a number") != std::string::npos);
  BOOST_TEST(refused("--clip 0") ==
             "2: --clip 0 is out of range; it is more than 0, or inf for no limit; type --clip 1");
  BOOST_TEST(refused("--clip -1").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--learning-rate fast") ==
             "2: --learning-rate fast is not a number; it is 0 or more and finite; type "
             "--learning-rate 1e-3");
  BOOST_TEST(refused("--learning-rate -1e-3").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--learning-rate inf").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--learning-rate 1e999").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--weight-decay -1").find("out of range") != std::string::npos);
  BOOST_TEST(refused("--timeout 0") ==
             "2: --timeout 0 is out of range; it is more than 0 and at most 1e9 seconds; type "
             "--timeout 600");
  BOOST_TEST(refused("--timeout 600s").find("is not a number") != std::string::npos);
  BOOST_TEST(refused("--clip ''").find("2: --clip") == 0U);
}

BOOST_AUTO_TEST_CASE(shards_and_pipelines) {
  const auto hybrid = run_of("--text t --data 2,4 --shards parameters").strategy;
  BOOST_TEST(hybrid.data == 8);
  BOOST_TEST(hybrid.data_shard == 4);
  BOOST_TEST((hybrid.shards == tenon::shards::parameters));
  const auto staged =
      run_of("--text t --pipeline 2 --schedule interleaved --chunks 3 --recompute block").strategy;
  BOOST_TEST(staged.pipeline == 2);
  BOOST_TEST(staged.data == 4);
  BOOST_TEST(staged.chunks == 3);
  BOOST_TEST((staged.schedule == tenon::pipeline_schedule::interleaved));
  BOOST_TEST((staged.recompute == tenon::recompute::block));
  BOOST_TEST((run_of("--text t --overlap off").overlap == pretrain_decoder::overlap_choice::off));
  BOOST_TEST((run_of("--text t --device host").device == pretrain_decoder::device_choice::host));
  BOOST_TEST(refused("--device host --transport staged") ==
             "2: --transport staged is for tensors on GPUs, and --device host has none; type "
             "--transport mpi");
  BOOST_TEST(refused("--device cuda --transport mpi") ==
             "2: --transport mpi takes host memory, and --device cuda keeps tensors on GPUs; type "
             "--transport staged");
  BOOST_TEST(refused("--data 2,4") ==
             "2: --data 2,4 says over how many ranks parameters are divided, and --shards none "
             "divides none; type --data 8, or --shards parameters");
  BOOST_TEST(refused("--chunks 2").find("2: --chunks 2 does not fit --schedule 1f1b") == 0U);
  BOOST_TEST(refused("--pipeline 3").find("needs a multiple of 3 ranks") != std::string::npos);
  BOOST_TEST(refused("--schedule 1fb1").find("type --schedule 1f1b") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_that_are_not_known) {
  BOOST_TEST(refused("--form gtp2") ==
             "2: --form gtp2 is not known; it is gpt2 or llama; type --form gpt2");
  BOOST_TEST(refused("--precision fp16") ==
             "2: --precision fp16 is not known; it is fp64, fp32 or bf16; type --precision fp32");
  BOOST_TEST(refused("--sums never") ==
             "2: --sums never is not known; it is any or fixed; type --sums any");
  BOOST_TEST(refused("--sums Fixed").find("type --sums fixed") != std::string::npos);
  BOOST_TEST(refused("--hiden 3") ==
             "2: --hiden is not a flag of this program; type --hidden if that was meant, or --help "
             "to see all");
  BOOST_TEST(refused("--learning_rate=1").find("type --learning-rate if") != std::string::npos);
  BOOST_TEST(refused("-hidden 3").find("2: -hidden is not a flag of this program") == 0U);
  BOOST_TEST(refused("-n 4") ==
             "2: -n is not a flag of this program; type --help to see all of them");
  for (const char* later : {"--tokenizer x", "--resume", "--trace x"}) {
    BOOST_TEST(refused(later).find(" is not a flag of this program") != std::string::npos, later);
  }
  BOOST_TEST(refused("--quiet yes") ==
             "2: the word yes belongs to no flag; every setting is a flag with its value; type "
             "--help to see them");
  BOOST_TEST(refused("--hidden 3 4").find("2: the word 4 belongs to no flag") == 0U);
  BOOST_TEST(refused("-- b").find("2: the word b belongs to no flag") == 0U);
}

BOOST_AUTO_TEST_CASE(values_missing_or_too_many) {
  BOOST_TEST(refused("--hidden") ==
             "2: --hidden was given no value; one is needed; type --hidden 384");
  BOOST_TEST(refused("--hidden --layers 3") ==
             "2: --hidden was given no value; one is needed; type --hidden 384");
  BOOST_TEST(refused("--heads=").find("--heads was given no value") != std::string::npos);
  BOOST_TEST(refused("--log ''").find("--log was given no value") != std::string::npos);
  BOOST_TEST(refused("--kv-heads 3 --kv-heads 6") ==
             "2: --kv-heads was given 2 times; once is allowed; type --kv-heads 6");
  BOOST_TEST(refused("--split-sequence=3") ==
             "2: --split-sequence takes no value; it is on when it is given; type --split-sequence "
             "alone");
  BOOST_TEST(refusal_of([] { read({}, 8); }) ==
             "2: --text is missing; it names the files or folders to learn from; type --text "
             "/usr/share/common-licenses");
  BOOST_TEST(refusal_of([] { read({"--text"}, 8); }) ==
             "2: --text was given no value; one is needed; type --text /usr/share/common-licenses");
  BOOST_TEST(refusal_of([] {
               read({"--text", "--form", "gpt2"}, 8);
             }).find("2: --text was given no value") == 0U);
}

BOOST_AUTO_TEST_CASE(values_that_do_not_fit_together) {
  BOOST_TEST(refused("--heads 5") ==
             "2: --heads 5 does not divide --hidden 384; every head has the same width, so heads "
             "must divide hidden; type --heads 4");
  BOOST_TEST(refused("--kv-heads 4").find("2: --kv-heads 4 does not divide --heads 6") == 0U);
  BOOST_TEST(refused("--hidden 30").find("makes heads of width 5") != std::string::npos);
  BOOST_TEST(refused("--data 3 --tensor 2", 4)
                 .find("2: the strategy --data 3 --tensor 2 needs 6 ranks, and this run has 4; ") ==
             0U);
  BOOST_TEST(refused("--tensor 3", 4).find("needs a multiple of 3 ranks") != std::string::npos);
  BOOST_TEST(refused("--microbatch 17") ==
             "2: --microbatch 17 does not fit --batch 16; it is between 1 and 16; type "
             "--microbatch 16");
  BOOST_TEST(refused("--batch 2147483647 --sequence 2147483647") ==
             "2: --microbatch 268435456 of --sequence 2147483647 makes tensors of more than 2^59 "
             "elements; fewer are allowed; type a smaller --microbatch or --sequence");
  BOOST_TEST(
      refused("--layers 2000000000 --hidden 2000000 --heads 1").find("more than 2^59 parameters") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_line_of_flags_gets_past_a_sentence) {
  // Random lines of words that are near to legal: accepted, or one sentence with status 2.
  const std::vector<std::string> words{
      "--text",   "a",        "--hidden", "0",      "7",   "-1",      "--quiet",
      "--tensor", "2",        "--",       "-",      "",    "--heads", "nan",
      "--log",    "--data",   "--dat",    "x=y",    "--=", "-q",      "--clip",
      "--clip=1", "--quiet=", "'",        "[1,2]",  "{}",  "--seed",  "---seed",
      "%s%n",     "--text=",  "=",        "--sums", "any", "fixed",   "--batch=3"};
  const random_stream stream(1, "words");
  int accepted = 0;
  for (std::int64_t line = 0; line < 2000; ++line) {
    std::vector<std::string> typed;
    const auto count = stream.bits(line * 100) % 7;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
      typed.push_back(words[stream.bits(line * 100 + 1 + i) % words.size()]);
    }
    const std::string said = refusal_of([&] { read(typed, 8); });
    if (said == "it was accepted") {
      ++accepted;
      continue;
    }
    BOOST_TEST(said.find("2: ") == 0U);
    BOOST_TEST(said.find(" type ") != std::string::npos, said);
    BOOST_TEST(said.find('\n') == std::string::npos, said);
    BOOST_TEST(said.find("cannot be read (") == std::string::npos, said);
  }
  BOOST_TEST(accepted > 0);
}
