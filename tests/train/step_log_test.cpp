// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/step_log.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "refusal.hpp"
#include "temporary_folder.hpp"
#include "tenon/base/random.hpp"

using namespace tenon;

namespace {

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_has_the_fields_and_nothing_else) {
  const step_record record{.step = 7,
                           .loss = 0.1,
                           .gradient_norm = 1.0 / 3,
                           .tokens = 3'293'642'752,
                           .step_seconds = 0.25,
                           .tokens_per_second = 16384,
                           .collective_seconds = 1e-300,
                           .bytes = {{"data", 123456789012}, {"tensor", 0}}};
  BOOST_TEST(json_of(record) ==
             "{\"step\":7,\"loss\":0.1,\"gradient_norm\":0.3333333333333333,"
             "\"tokens\":3293642752,\"step_seconds\":0.25,\"tokens_per_second\":16384,"
             "\"collective_seconds\":1e-300,\"bytes\":{\"data\":123456789012,\"tensor\":0}}");
  const auto read = nlohmann::json::parse(json_of(record));
  BOOST_TEST(read.size() == 8U);
  BOOST_TEST(read["tokens"].get<std::int64_t>() == record.tokens);
  BOOST_TEST(read["bytes"]["data"].get<std::int64_t>() == 123456789012);
  BOOST_TEST(nlohmann::json::parse(json_of(step_record{}))["bytes"].is_object());
}

BOOST_AUTO_TEST_CASE(doubles_keep_all_their_digits) {
  const random_stream stream(1, "bits of doubles");
  for (std::int64_t i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(stream.bits(i));
    const auto read = nlohmann::json::parse(json_of(step_record{.loss = value}))["loss"];
    if (std::isfinite(value)) {
      BOOST_TEST(std::bit_cast<std::uint64_t>(read.get<double>()) == stream.bits(i));
    } else {
      BOOST_TEST(read.is_null());
    }
  }
  for (double value : {std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), std::nan("")}) {
    BOOST_TEST(nlohmann::json::parse(json_of(step_record{.loss = value}))["loss"].is_null());
  }
}

BOOST_AUTO_TEST_CASE(names_of_axes_are_escaped) {
  std::string odd = "a \"quoted\" \\ axis\n\t";
  odd += '\x01';
  const auto read = nlohmann::json::parse(json_of(step_record{.bytes = {{odd, 5}}}));
  BOOST_TEST(read["bytes"][odd].get<int>() == 5);
}

BOOST_AUTO_TEST_CASE(the_file_has_one_object_a_step) {
  const temporary_folder folder;
  const std::string path = folder.path("run.jsonl");
  {
    step_log opened(path);
    BOOST_TEST(lines_of(path).empty());  // the file is there from the start
    opened.write({.step = 1, .loss = 3.5});
    BOOST_TEST(lines_of(path).size() == 1U);  // whole lines at once, not at the end
    step_log log;
    log.write({.step = 99});  // no file: nothing
    log = std::move(opened);
    log.write({.step = 2, .loss = 2.5});
  }
  const auto lines = lines_of(path);
  BOOST_REQUIRE(lines.size() == 2U);
  BOOST_TEST(lines[0]["loss"].get<double>() == 3.5);
  BOOST_TEST(lines[1]["step"].get<int>() == 2);
}

BOOST_AUTO_TEST_CASE(an_existing_file_stays_as_it_is) {
  const temporary_folder folder;
  const std::string path = folder.file("run.jsonl", "precious\n");
  BOOST_TEST(refusal_of([&] { step_log{path}; }) ==
             "2: --log " + path +
                 " exists already; a log is never written over; type another "
                 "name, or remove the file");
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  BOOST_TEST(content.str() == "precious\n");
  BOOST_TEST(refusal_of([&] { step_log{"/dev/full"}; }).find("exists already") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_made_is_a_bad_request) {
  const temporary_folder folder;
  const std::string path = folder.path("none/run.jsonl");
  BOOST_TEST(refusal_of([&] { step_log{path}; }) ==
             "2: --log " + path +
                 " cannot be written (No such file or directory); it is a new "
                 "file in a folder that exists; type --log with such a path");
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_one_sentence) {
  const temporary_folder folder;
  const std::string path = folder.path("run.jsonl");
  step_log log(path);
  log.write({.step = 1});
  // A limit on the size of files stands in for a full disk: the write fails in the same place.
  rlimit before{};
  BOOST_REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 200;
  BOOST_REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = refusal_of([&] {
    for (std::int64_t step = 2; step < 10; ++step) log.write({.step = step});
  });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  BOOST_TEST(said == "1: --log " + path +
                         " cannot be written at step 2 (File too large); make "
                         "room for it, or type --log with another path");
}
