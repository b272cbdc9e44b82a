// SPDX-License-Identifier: Apache-2.0
//
// Bad input: one sentence that names the flag, status 2, no rank that hangs or is aborted.
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "program.hpp"

using programs::fresh_path;
using programs::lines_with;
using programs::text_file;
using programs::tiny;

namespace {

void refused(int ranks, const std::string& flags, const std::string& sentence) {
  BOOST_TEST_CONTEXT(flags << " on " << ranks << " ranks") {
    const auto all = programs::run(ranks, flags, 20);
    BOOST_TEST(all.status == 2);
    BOOST_TEST(all.output == "");
    const auto said = lines_with(all.messages, "tenon: error: ");
    BOOST_TEST(said.size() == 1U, all.messages);
    if (!said.empty()) {
      BOOST_TEST(said[0].find(sentence) != std::string::npos,
                 "'" << sentence << "' is not in: " << said[0]);
    }
    for (const char* trace : {"MPI_ABORT", "MPI_Abort", "terminate called", "Signal:"}) {
      BOOST_TEST(lines_with(all.messages, trace).empty(), all.messages);
    }
  }
}

std::string file_of(const std::string& name, const std::string& content) {
  const std::string path = fresh_path(name);
  std::ofstream(path) << content;
  return path;
}

}  // namespace

// Where a GPU is there the request is met, and the tests labelled gpu look at the run.
BOOST_AUTO_TEST_CASE(devices) {
  const auto asked = programs::run(2, tiny("--quiet --device cuda --text " + text_file()));
  if (asked.status != 0) {
    BOOST_TEST(asked.status == 2);
    BOOST_TEST(asked.messages.find("--device cuda was asked for, and ") != std::string::npos);
    BOOST_TEST(asked.messages.find("; type --device host") != std::string::npos);
  }
  BOOST_TEST(programs::run(2, tiny("--quiet --device host --text " + text_file())).status == 0);
}

BOOST_AUTO_TEST_CASE(texts) {
  refused(2, "--steps 1", "--text is missing");
  refused(2, "--text " + fresh_path("nothing"), "does not exist; it takes files and folders");
  refused(2, "--text " + text_file() + "/folder", "--text " + text_file() + "/folder");
  refused(2, "--text " + file_of("empty", ""), "empty is empty;");
  const std::string folder = fresh_path("folder");
  std::filesystem::create_directory(folder);
  refused(2, "--text " + folder, "holds no file");
  // A text needs one byte more than a sequence.
  const std::string eight = file_of("eight", "12345678");
  refused(2, tiny("--quiet --text " + eight),
          "--text holds 8 bytes, and --sequence 8 needs one more than its length");
  const std::string nine = file_of("nine", "123456789");
  BOOST_TEST(programs::run(2, tiny("--quiet --text " + nine)).status == 0);
}

BOOST_AUTO_TEST_CASE(text_that_may_not_be_read) {
  if (geteuid() == 0) return;  // root may read everything
  const std::string folder = fresh_path("locked");
  std::filesystem::create_directory(folder);
  chmod(folder.c_str(), 0);
  refused(2, "--text " + folder, "cannot be read");
  chmod(folder.c_str(), 0700);
}

BOOST_AUTO_TEST_CASE(sizes) {
  refused(2, tiny("--microbatch 0"), "--microbatch 0 is too small; it is between 1 and");
  refused(2, "--text x --hidden -16", "--hidden -16 is too small");
  refused(2, "--text x --layers twelve", "--layers twelve is not a whole number");
  refused(2, "--text x --batch 4.5", "--batch 4.5 is not a whole number");
  refused(2, "--text x --sequence 99999999999999999999", "--sequence 99999999999999999999 is too");
  refused(2, "--text x --learning-rate fast", "--learning-rate fast is not a number");
  refused(2, "--text x --dropout 1", "--dropout 1 is out of range; it is at least 0");
  refused(2, "--text x --hidden 16 --heads 3", "--heads 3 does not divide --hidden 16");
  refused(2, "--text x --hidden 16 --heads 4 --kv-heads 3", "--kv-heads 3 does not divide");
  refused(2, "--text x --precision fp16", "--precision fp16 is not known; it is fp64, fp32 or");
}

BOOST_AUTO_TEST_CASE(flags) {
  refused(2, "--text x --hiden 16", "--hiden is not a flag of this program; type --hidden if");
  refused(2, "--text x --steps 1 extra", "the word extra belongs to no flag");
  refused(2, "--text x --steps", "--steps was given no value");
  refused(2, "--text x --steps 1 --steps 2", "--steps was given 2 times; once is allowed");
  refused(2, "--text x --quiet=yes", "--quiet takes no value");
  refused(0, "--text x --hiden 16", "--hiden is not a flag");
}

BOOST_AUTO_TEST_CASE(extents) {
  refused(4, tiny("--data 3"),
          "the strategy --data 3 --tensor 1 needs 3 ranks, and this run has 4");
  refused(2, tiny("--data 2 --tensor 2"), "needs 4 ranks, and this run has 2");
  refused(4, tiny("--tensor 3"), "needs a multiple of 3 ranks, and this run has 4");
  refused(1, tiny("--data 0"), "--data 0 is too small");
}

BOOST_AUTO_TEST_CASE(logs) {
  const std::string log = file_of("log", "my own notes\n");
  refused(2, tiny("--log " + log), "exists already; a log is never written over");
  std::string kept;
  std::getline(std::ifstream(log), kept);
  BOOST_TEST(kept == "my own notes");
  refused(2, tiny("--log " + fresh_path("no_folder") + "/log"), "cannot be written");
}
