// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace programs {
namespace {

// --launcher=WORDS --flags=WORDS --program=PATH --text=PATH, as ctest gives them.
std::string word_given(const std::string& name) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  for (int i = 1; i < suite.argc; ++i) {
    const std::string word = suite.argv[i];
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  throw std::runtime_error("the test was not given " + name);
}

const std::string& folder() {
  struct temporary {
    std::string path;
    temporary() {
      std::string name = std::filesystem::temp_directory_path() / "tenon_programs_XXXXXX";
      if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made");
      path = name;
    }
    ~temporary() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const temporary own;
  return own.path;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

bool is_open_mpi() { return word_given("--flags").find("--oversubscribe") != std::string::npos; }
std::string launcher() { return word_given("--launcher"); }
std::string text_file() { return word_given("--text"); }

std::string fresh_path(const std::string& name) {
  const std::string path = folder() + "/" + name;
  std::filesystem::remove_all(path);
  return path;
}

outcome run_behind(const std::string& words, const std::string& flags, int seconds) {
  const std::string output = fresh_path("stdout");
  const std::string messages = fresh_path("stderr");
  const std::string command = "timeout -k 1 " + std::to_string(seconds) + " " + words + " '" +
                              word_given("--program") + "' " + flags + " >" + output + " 2>" +
                              messages + " </dev/null";
  const int ended = std::system(command.c_str());
  outcome all{WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended), content_of(output),
              content_of(messages)};
  BOOST_TEST_MESSAGE(command << "\nstatus " << all.status << "\n" << all.output << all.messages);
  return all;
}

outcome run(int ranks, const std::string& flags, int seconds) {
  if (ranks == 0) return run_behind("", flags, seconds);
  return run_behind(launcher() + " " + std::to_string(ranks) + " " + word_given("--flags"), flags,
                    seconds);
}

std::string tiny(const std::string& more) {
  const std::pair<const char*, std::string> standard[]{
      {"--text", text_file()}, {"--layers", "2"},   {"--hidden", "16"}, {"--heads", "4"},
      {"--ffn", "24"},         {"--sequence", "8"}, {"--batch", "4"},   {"--steps", "3"},
      {"--warmup", "1"},       {"--sample", "0"},   {"--threads", "1"}};
  std::string flags = more;
  for (const auto& [name, value] : standard) {
    // No flag may be given twice.
    if ((" " + more + " ").find(std::string(" ") + name + " ") == std::string::npos) {
      flags += std::string(" ") + name + " " + value;
    }
  }
  return flags;
}

std::vector<logged_step> read_log(const std::string& path) {
  std::ifstream file(path);
  std::vector<logged_step> steps;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    logged_step one;
    for (const auto& [name, value] : json.items()) one.fields.push_back(name);
    json.at("step").get_to(one.step);
    json.at("loss").get_to(one.loss);
    json.at("gradient_norm").get_to(one.gradient_norm);
    json.at("tokens").get_to(one.tokens);
    json.at("step_seconds").get_to(one.step_seconds);
    json.at("tokens_per_second").get_to(one.tokens_per_second);
    json.at("collective_seconds").get_to(one.collective_seconds);
    json.at("bytes").get_to(one.bytes);
    steps.push_back(one);
  }
  return steps;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& word) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(word) != std::string::npos) found.push_back(line);
  }
  return found;
}

}  // namespace programs
