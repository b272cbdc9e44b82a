// SPDX-License-Identifier: Apache-2.0
//
// What compiling costs: build/bench/compile_time [--json FILE]. The units of the trainers, against
// their budget (each under 90 s and 1.5 GB, at most 12 blocks an element), and one include of each
// layer's header. The compiler and its flags are those of the build, and no cache is used. Seconds
// are of the processor, so that other work on the machine does not count.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/train/progress.hpp"
#include "tenon/train/table.hpp"

namespace {

namespace fs = std::filesystem;

constexpr double most_seconds = 90;
constexpr std::int64_t most_bytes = 1'500'000'000;
constexpr std::int64_t most_blocks = 12;

struct cost {
  double seconds = 0;
  std::int64_t bytes = 0;  // of the largest process
};

// Runs a command line and waits for it. Errors: std::runtime_error when it fails.
cost cost_of(const std::string& command) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
    throw std::runtime_error("this command failed: " + command);
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime), std::int64_t{1024} * used.ru_maxrss};
}

// How a file of the build is compiled: the command up to its output.
std::string flags_of(const nlohmann::json& entry) {
  const std::string command = entry.at("command");
  return "cd '" + std::string(entry.at("directory")) + "' && exec " +
         command.substr(0, command.rfind(" -o "));
}

// Blocks that an object holds, counted by the tables of their virtual functions.
std::int64_t blocks_in(const std::string& object) {
  std::FILE* pipe = popen(("nm '" + object + "'").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("nm cannot be started");
  std::int64_t blocks = 0;
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    if (line.find(" _ZTVN5tenon2v06detail12erased_layerI") != std::string::npos) ++blocks;
    line.clear();
  }
  if (pclose(pipe) != 0) throw std::runtime_error("nm cannot read " + object);
  return blocks;
}

struct row {
  std::string name;
  cost used;
  std::int64_t blocks = -1;  // of a unit
};

void print(const std::vector<row>& rows, bool judged) {
  tenon::text_table table({{judged ? "unit" : "header"},
                           {"seconds", tenon::column_side::right},
                           {"MB", tenon::column_side::right},
                           {judged ? "blocks" : "", tenon::column_side::right}});
  const auto cells = [](const std::string& name, double seconds, std::int64_t bytes,
                        const std::string& blocks) {
    return std::vector<std::string>{name, tenon::detail::decimals(seconds, 1),
                                    std::to_string(bytes / 1'000'000), blocks};
  };
  for (const row& each : rows) {
    table.row(cells(each.name, each.used.seconds, each.used.bytes,
                    judged ? std::to_string(each.blocks) : ""));
  }
  if (judged) table.row(cells("budget", most_seconds, most_bytes, std::to_string(most_blocks)));
  std::cout << table.text() << std::endl;
}

int measure(const fs::path& commands, bool units_alone, const std::string& json) {
  std::ifstream file(commands);
  if (!file) throw std::runtime_error(commands.string() + " cannot be read; name it by --commands");
  const auto entries = nlohmann::json::parse(file);
  const fs::path folder =
      fs::temp_directory_path() / ("tenon_compile_time_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string object = folder / "object.o";
  setenv("CCACHE_DISABLE", "1", 1);

  std::vector<row> units;
  std::string flags;
  for (const auto& entry : entries) {
    const fs::path source = std::string(entry.at("file"));
    if (source.parent_path().filename() != "units") continue;
    flags = flags_of(entry);
    row unit{source.stem().string(), {}, 0};
    unit.used = cost_of(flags + " -o '" + object + "' -c '" + source.string() + "'");
    unit.blocks = blocks_in(object);
    units.push_back(unit);
  }
  // A unit that the build leaves out would keep any budget.
  bool few_blocks = true;
  for (const std::string element : {"fp64", "fp32", "bf16"}) {
    std::int64_t blocks = 0;
    int units_of_element = 0;
    for (const row& unit : units) {
      if (unit.name.substr(0, unit.name.find('_')) != element) continue;
      blocks += unit.blocks;
      ++units_of_element;
    }
    if (units_of_element != 3) {
      throw std::runtime_error("the build has not three units of trainers for " + element);
    }
    if (blocks > most_blocks) {
      std::cerr << element << " has " << blocks << " blocks, and " << most_blocks
                << " are its budget\n";
      few_blocks = false;
    }
  }
  print(units, true);

  std::vector<row> headers;
  if (!units_alone) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(TENON_HEADERS)) {
      if (entry.path().extension() == ".hpp") paths.push_back(entry.path().filename());
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      const std::string source = folder / "include.cpp";
      std::ofstream(source) << "#include \"tenon/" << path.string() << "\"\n";
      headers.push_back(
          {"tenon/" + path.string(), cost_of(flags + " -o '" + object + "' -c '" + source + "'")});
    }
    print(headers, false);
  }
  fs::remove_all(folder);

  bool kept = few_blocks;
  nlohmann::json numbers{{"units", nlohmann::json::array()}, {"headers", nlohmann::json::array()}};
  for (const row& each : units) {
    const bool fits =
        each.used.seconds < most_seconds && each.used.bytes < most_bytes && each.blocks > 0;
    kept = kept && fits;
    if (!fits) std::cerr << "the unit " << each.name << " is not within the budget\n";
    numbers["units"].push_back({{"name", each.name},
                                {"seconds", each.used.seconds},
                                {"bytes", each.used.bytes},
                                {"blocks", each.blocks}});
  }
  for (const row& each : headers) {
    numbers["headers"].push_back(
        {{"name", each.name}, {"seconds", each.used.seconds}, {"bytes", each.used.bytes}});
  }
  if (!json.empty() && !(std::ofstream(json) << numbers.dump(2) << std::endl)) {
    throw std::runtime_error("--json " + json + " cannot be written");
  }
  return kept ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App parser("Measures what compiling costs, against the budget of the trainers' units.");
  std::string commands = TENON_COMPILE_COMMANDS;
  std::string json;
  bool units_alone = false;
  parser.add_option("--commands", commands, "the compile_commands.json of a build")
      ->capture_default_str();
  parser.add_flag("--units", units_alone, "leave out the headers");
  parser.add_option("--json", json, "write the numbers to this file, too");
  CLI11_PARSE(parser, argc, argv);
  try {
    return measure(commands, units_alone, json);
  } catch (const std::exception& e) {
    std::cerr << "compile_time: error: " << e.what() << "\n";
    return 2;
  }
}
