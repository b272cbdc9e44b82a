// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/text.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "refusal.hpp"
#include "temporary_folder.hpp"

using namespace tenon;

namespace {

training_text read(const std::vector<std::string>& paths) { return read_text(paths); }

std::string bytes_of(const training_text& text) {
  return std::string(text.bytes.begin(), text.bytes.end());
}

std::string refused(const std::vector<std::string>& paths) {
  return refusal_of([&] { read(paths); });
}

/// What `refused` says to a user who is not root: permissions do not bind root.
std::string refused_as_plain_user(const std::vector<std::string>& paths) {
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    std::string said = "the user could not be changed";
    if (geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0)) said = refused(paths);
    const auto written = write(ends[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char piece[512];
  for (ssize_t got; (got = ::read(ends[0], piece, sizeof piece)) > 0;) {
    said.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 1;
  waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
  return said;
}

const std::string allowed =
    "; it takes files and folders that can be read; type --text with the path of a file or folder "
    "of text";

}  // namespace

BOOST_AUTO_TEST_CASE(files_are_sorted_and_joined_by_a_zero) {
  const temporary_folder folder;
  const std::string b = folder.file("b", "second");
  const std::string a = folder.file("a", "first");
  const training_text text = read({b, a});
  BOOST_TEST(bytes_of(text) == std::string("first\0second", 12));
  BOOST_TEST(text.files == (std::vector<std::string>{a, b}), boost::test_tools::per_element());
  BOOST_TEST(text.bytes_of_files() == 11);
  BOOST_TEST(bytes_of(read({b})) == "second");
}

BOOST_AUTO_TEST_CASE(a_folder_stands_for_all_files_below) {
  const temporary_folder folder;
  folder.file("text/c", "3");
  folder.file("text/a/deep/er", "1");
  folder.file("text/b", "2");
  folder.file("text/B", "0");  // byte order, not the locale's
  const training_text text = read({folder.path("text")});
  BOOST_TEST(bytes_of(text) == std::string("0\0001\0002\0003", 7));
  BOOST_TEST(text.files.at(1) == folder.path("text/a/deep/er"));
  BOOST_TEST(bytes_of(read({folder.path("text") + "/"})) == bytes_of(text));
}

BOOST_AUTO_TEST_CASE(a_file_under_two_names_is_read_once) {
  const temporary_folder folder;
  const std::string real = folder.file("text/real", "x");
  folder.file("elsewhere", "y");
  std::filesystem::create_symlink("real", folder.path("text/a_link"));
  std::filesystem::create_symlink(folder.path("elsewhere"), folder.path("text/link_out"));
  std::filesystem::create_hard_link(real, folder.path("text/second_name"));
  std::filesystem::create_directory_symlink(folder.path("text"), folder.path("text/circle"));
  std::filesystem::create_symlink("nothing", folder.path("text/broken"));
  BOOST_REQUIRE(mkfifo(folder.path("text/pipe").c_str(), 0600) == 0);
  const training_text text = read({folder.path("text"), real, real});
  BOOST_TEST(text.files.size() == 2U);
  BOOST_TEST(bytes_of(text) == std::string("x\0y", 3));
}

BOOST_AUTO_TEST_CASE(bytes_come_through_unchanged) {
  const temporary_folder folder;
  std::string all;
  for (int i = 0; i < 3 * (1 << 20) + 17; ++i) all += static_cast<char>(i * 7 + i / 256);
  const training_text text = read({folder.file("all", all)});
  BOOST_TEST((bytes_of(text) == all));
  BOOST_TEST(text.fingerprint() == read({folder.path("all")}).fingerprint());
  all[1 << 20] ^= 1;
  BOOST_TEST(read({folder.file("other", all)}).fingerprint() != text.fingerprint());
}

BOOST_AUTO_TEST_CASE(empty_files_are_files) {
  const temporary_folder folder;
  folder.file("text/a", "1");
  folder.file("text/b", "");
  folder.file("text/c", "3");
  const training_text text = read({folder.path("text")});
  BOOST_TEST(bytes_of(text) == std::string("1\0\0003", 4));
  BOOST_TEST(text.bytes_of_files() == 2);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_refused_by_its_name) {
  const temporary_folder folder;
  BOOST_TEST(refused({}) ==
             "2: --text is missing; it names the files or folders to learn from; type --text "
             "/usr/share/common-licenses");
  BOOST_TEST(refused({folder.path("none")}) ==
             "2: --text " + folder.path("none") + " does not exist" + allowed);
  BOOST_TEST(refused({""}) == "2: --text  does not exist" + allowed);
  const std::string empty = folder.file("empty", "");
  BOOST_TEST(refused({empty}) == "2: --text " + empty + " is empty" + allowed);
  const std::string other = folder.file("other", "");
  BOOST_TEST(refused({empty, other}) == "2: --text " + empty + " is empty" + allowed);
  std::filesystem::create_directory(folder.path("hollow"));
  BOOST_TEST(refused({folder.path("hollow")}) ==
             "2: --text " + folder.path("hollow") + " holds no file" + allowed);
  BOOST_TEST(refused({"/dev/null"}) ==
             "2: --text /dev/null is neither a file nor a folder" + allowed);
  const std::string good = folder.file("good", "text");
  BOOST_TEST(refused({good, folder.path("none")}).find("none does not exist") != std::string::npos);
  BOOST_TEST(refused({good + "/below"}).find(good + "/below ") != std::string::npos);
  std::filesystem::create_symlink("loop", folder.path("loop"));
  BOOST_TEST(refused({folder.path("loop")}).find("loop cannot be read (") != std::string::npos);
  BOOST_TEST(refused({std::string(5000, 'x')}).find("x cannot be read (") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_may_not_be_read_is_refused_by_its_name) {
  const temporary_folder folder;
  const std::string inside = folder.file("locked/file", "text");
  const std::string secret = folder.file("open/secret", "text");
  folder.file("above/locked/file", "text");
  chmod(folder.path("").c_str(), 0755);
  chmod(secret.c_str(), 0);
  chmod(folder.path("locked").c_str(), 0);
  chmod(folder.path("above/locked").c_str(), 0);
  const std::string why = " cannot be read (Permission denied)" + allowed;
  BOOST_TEST(refused_as_plain_user({folder.path("locked")}) ==
             "2: --text " + folder.path("locked") + why);
  BOOST_TEST(refused_as_plain_user({inside}) == "2: --text " + inside + why);
  BOOST_TEST(refused_as_plain_user({folder.path("above")}) ==
             "2: --text " + folder.path("above/locked") + why);
  BOOST_TEST(refused_as_plain_user({folder.path("open")}) == "2: --text " + secret + why);
  chmod(folder.path("locked").c_str(), 0755);
  chmod(folder.path("above/locked").c_str(), 0755);
}

BOOST_AUTO_TEST_CASE(the_licences_that_every_debian_carries,
                     *boost::unit_test::precondition([](boost::unit_test::test_unit_id) {
                       return std::filesystem::exists("/usr/share/common-licenses/GPL-3");
                     })) {
  const training_text text = read({"/usr/share/common-licenses"});
  std::int64_t files = 0, bytes = 0;  // counted another way: the files that are no links
  for (const auto& entry : std::filesystem::directory_iterator("/usr/share/common-licenses")) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    ++files;
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  BOOST_TEST(static_cast<std::int64_t>(text.files.size()) == files);
  BOOST_TEST(text.bytes_of_files() == bytes);
  BOOST_TEST(static_cast<std::int64_t>(text.bytes.size()) == bytes + files - 1);
  BOOST_TEST_MESSAGE(files << " files, " << bytes << " bytes");
}
