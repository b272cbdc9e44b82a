// SPDX-License-Identifier: Apache-2.0
// Messages longer than an int can count: 2^31 + 1 bytes. They take about 5 GB in all.
#include <boost/test/unit_test.hpp>

#include "checks.hpp"
#include "tenon/communicate/mpi.hpp"

using namespace tenon_test;

BOOST_AUTO_TEST_CASE(messages_beyond_an_int) {
  int argc = 0;
  char** argv = nullptr;
  const mpi_session session(argc, argv);
  ledger book;
  communicator group(session.world(), "data", book);
  const std::int64_t length = (std::int64_t{1} << 31) + 1;
  const auto mark = static_cast<unsigned char>(group.size());
  buffer<std::uint8_t> values(length);
  const auto fill = [&](unsigned char value, std::int64_t begin, std::int64_t count) {
    std::fill_n(values.data() + begin, count, value);
  };
  const auto is_marked = [&] {
    return std::all_of(values.data(), values.data() + length,
                       [&](std::uint8_t v) { return v == mark; });
  };
  fill(group.rank() == 0 ? mark : 0, 0, length);
  communicate::broadcast(group, values.span());
  BOOST_TEST(is_marked());

  counts cut(static_cast<std::size_t>(group.size()), 3);
  cut[0] += length - 3 * group.size();
  const auto me = static_cast<std::size_t>(group.rank());
  const std::int64_t before = sum_of(std::span(cut).first(me));
  fill(0, 0, length);
  fill(mark, before, cut[me]);
  communicate::all_gather(
      group,
      values.span().subspan(static_cast<std::size_t>(before), static_cast<std::size_t>(cut[me])),
      values.span(), std::span(cut));
  BOOST_TEST(is_marked());
  const std::int64_t received = group.size() == 1 ? 0 : length - cut[me];
  const std::int64_t sent = group.rank() == 0 || group.size() == 1 ? 0 : length;
  BOOST_TEST(book.bytes_by_axis()["data"] == received + sent);

  if (group.size() == 2) {
    fill(group.rank() == 0 ? mark : 0, 0, length);
    if (group.rank() == 0) communicate::send(group, values.span(), 1);
    if (group.rank() == 1) communicate::receive(group, values.span(), 0);
    BOOST_TEST(is_marked());
  }
}
