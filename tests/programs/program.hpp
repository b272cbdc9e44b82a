// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace programs {

/// What a run of a program came to.
struct outcome {
  int status = 0;  ///< of the launcher
  std::string output;
  std::string messages;  ///< what went to stderr
};

/// Runs pretrain_decoder with these flags on `ranks` ranks, 0 for no launcher at all, and waits for
/// at most `seconds`: then it is killed and the status is 124.
outcome run(int ranks, const std::string& flags, int seconds = 60);

/// The same with other words than the usual ones in front of the program.
outcome run_behind(const std::string& words, const std::string& flags, int seconds = 60);

/// Words that the test was given: the launcher, and a file with text.
bool is_open_mpi();
std::string launcher();
std::string text_file();

/// A name in a folder that is there for this test alone.
std::string fresh_path(const std::string& name);

/// These flags, and for all that they leave open a model so small that starting it takes longest,
/// and three steps on it.
std::string tiny(const std::string& more = "");

/// A line of --log FILE.
struct logged_step {
  std::vector<std::string> fields;
  std::int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t tokens = 0;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double collective_seconds = 0;
  std::map<std::string, std::int64_t> bytes;
};
std::vector<logged_step> read_log(const std::string& path);

/// The lines of a text that contain a word.
std::vector<std::string> lines_with(const std::string& text, const std::string& word);

}  // namespace programs
