// SPDX-License-Identifier: Apache-2.0
//
// Shows a pipeline's schedule, checked, as a chart:
//   build/examples/show_schedule --schedule zero-bubble --pipeline 4 --microbatches 6
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tenon/base/log.hpp"
#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/schedule/svg.hpp"

using namespace tenon;

namespace {

struct flag {
  const char* name;
  const char* value;
  const char* example;  // what a message tells the user to type
  const char* meaning;
};
constexpr flag flags[] = {
    {"--schedule", "gpipe|1f1b|interleaved|zero-bubble", "1f1b", "order of the passes [1f1b]"},
    {"--pipeline", "P", "4", "stages, one a rank"},
    {"--microbatches", "M", "8", "microbatches of a step"},
    {"--chunks", "V", "2", "chunks of layers on a stage; interleaved alone has several [1]"},
    {"--svg", "FILE", "schedule.svg", "write the chart as an image, too; an old file is replaced"},
};
using values = std::map<std::string, std::vector<std::string>>;

std::string shown(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \t\n'\"") == std::string::npos;
  return plain ? value : joined("'", value, "'");
}

std::int64_t whole(const values& typed, const flag& each) {
  const std::string& text = typed.at(each.name).front();
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number =
      read.ec != std::errc::invalid_argument && read.ptr == text.data() + text.size();
  require(number && read.ec == std::errc{} && value >= 1 && value <= most_forwards, each.name, " ",
          shown(text), !number ? " is not a whole number" : " is out of range",
          "; it is between 1 and ", most_forwards, "; type ", each.name, " ", each.example);
  return value;
}

// Reads the flags into `typed`. Returns the text of --help if that was asked for.
std::string read_flags(int count, const char* const* arguments, values& typed) {
  CLI::App parser("Shows a pipeline's schedule as a chart, with its bubble and peak in flight.",
                  "show_schedule");
  parser.set_help_flag("-h,--help", "print this and end");
  parser.allow_extras();  // they get a sentence of ours
  for (const flag& each : flags) {
    parser.add_option(each.name, typed[each.name], each.meaning)
        ->type_name(each.value)
        ->expected(0, 1 << 20)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  try {
    parser.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return parser.help();
  } catch (const CLI::ParseError& complaint) {
    require(false, "the flags cannot be read (", complaint.what(), "); type --help to see them");
  }
  const std::vector<std::string> rest = parser.remaining();
  if (!rest.empty()) {
    require(false, shown(rest.front()), " is not a flag of this program; ",
            "type --help to see all of them");
  }
  for (const flag& each : flags) {
    const std::vector<std::string>& given = typed.at(each.name);
    const std::size_t times = parser.count(each.name);
    require(times <= 1, each.name, " was given ", times, " times; once is allowed; type ",
            each.name, " ", each.example);
    require(times == 0 || (!given.empty() && !given.front().empty()), each.name,
            " was given no value; one is needed; type ", each.name, " ", each.example);
  }
  for (const flag& each : {flags[1], flags[2]}) {
    require(!typed.at(each.name).empty(), each.name, " is missing; it gives the ", each.meaning,
            "; type ", each.name, " ", each.example);
  }
  return "";
}

void print_line(const char* what, const std::vector<std::int64_t>& of_ranks) {
  std::string line = what;
  for (const std::int64_t each : of_ranks) line += joined(" ", each);
  std::puts(line.c_str());
}

void show(const values& typed) {
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  if (!typed.at("--schedule").empty()) {
    const std::string& name = typed.at("--schedule").front();
    const auto found = schedule_named(name);
    require(found.has_value(), "--schedule ", shown(name),
            " is not known; it is gpipe, 1f1b, interleaved or zero-bubble; type --schedule 1f1b");
    schedule = *found;
  }
  schedule_sizes sizes{whole(typed, flags[1]), whole(typed, flags[2]), 1};
  if (!typed.at("--chunks").empty()) sizes.chunks = whole(typed, flags[3]);

  const schedule_table table = make_schedule(schedule, sizes);
  const schedule_times times = time_schedule(table);  // checks it, too
  const std::int64_t open_sends = open_sends_needed(table);

  std::string title = joined(name_of(schedule), ": ", sizes.stages, " stages, ", sizes.microbatches,
                             " microbatches");
  if (sizes.chunks > 1) title += joined(", ", sizes.chunks, " chunks a stage");
  char bubble[40];
  std::snprintf(bubble, sizeof bubble, "bubble %.1f %%", 100 * times.bubble());
  if (!typed.at("--svg").empty()) {
    const std::string& path = typed.at("--svg").front();
    std::ofstream file(path);
    file << svg_text(table, times, joined(title, ", ", bubble));
    file.close();
    if (!file) {
      throw error(error_kind::failed,
                  joined("--svg ", shown(path),
                         " cannot be written; give a file in a folder that is there"));
    }
  }
  std::printf("%s\n%s", title.c_str(), chart_text(table, times).c_str());
  std::printf("F forward, B %s, . a unit of waiting\n",
              schedule == pipeline_schedule::zero_bubble ? "gradient of the input, W of the weights"
                                                         : "backward (2 units)");
  std::printf("%s of %lld units\n", bubble, static_cast<long long>(times.total));
  print_line("peak in flight, by rank:", times.in_flight);
  if (times.held != times.in_flight) {
    print_line("until the gradient of the weights is there:", times.held);
  }
  std::puts(open_sends == 0 ? "no deadlock, with blocking sends"
                            : joined("no deadlock, when a rank leaves ", open_sends,
                                     open_sends == 1 ? " send" : " sends", " to another open")
                                  .c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    values typed;
    const std::string help = read_flags(argc, argv, typed);
    if (help.empty()) {
      show(typed);
    } else {
      std::fputs(help.c_str(), stdout);
    }
    return 0;
  } catch (const error& e) {
    log(log_level::error, e.what());
    return e.exit_status();
  } catch (const std::exception& e) {
    log(log_level::error, e.what());
    return 1;
  }
}

// Output:
//   zero-bubble: 4 stages, 6 microbatches
//   rank 0 | F0 F1 F2 F3 .  .  .  B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5
//   rank 1 | .  F0 F1 F2 .  .  B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 B4 W3 B5 W4 W5
//   rank 2 | .  .  F0 F1 .  B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 B5 W3 W4 W5
//   rank 3 | .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5
//   F forward, B gradient of the input, W of the weights, . a unit of waiting
//   bubble 14.3 % of 21 units
//   peak in flight, by rank: 4 3 2 1
//   until the gradient of the weights is there: 4 4 4 4
//   no deadlock, with blocking sends
