// SPDX-License-Identifier: Apache-2.0
// T-42: every collective over MPI, with MPI's own counts and in pieces; a user's communicator.
#include <mpi.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "checks.hpp"
#include "tenon/base/random.hpp"
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/ranks.hpp"

using namespace tenon_test;

namespace {

/// The test's main has started MPI: that is also the case of a user's program.
mpi_session& session() {
  static int argc = 0;
  static char** argv = nullptr;
  static mpi_session running(argc, argv);
  return running;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_collective_equals_a_serial_loop) {
  ledger book;
  communicator group(session().world(), "data", book);
  for (const std::int64_t length : {0, 1, 17}) check_every_collective(group, length);
  group.compare();
}

BOOST_AUTO_TEST_CASE(a_low_count_limit_changes_nothing) {
  ledger book;
  communicator group(session().world({.count_limit = 7}), "data", book);
  check_every_collective(group, 20);
  group.compare();
}

BOOST_AUTO_TEST_CASE(comparing_before_every_call_changes_nothing) {
  ledger book;
  communicator group(session().world(), "data", book, {.compare_every_call = true});
  check_every_collective(group, 17);
}

BOOST_AUTO_TEST_CASE(mpi_that_runs_already_is_left_alone) {
  BOOST_TEST(!session().started_here());
  {
    int argc = 0;
    char** argv = nullptr;
    const mpi_session inner(argc, argv);
  }
  int over = 0;
  MPI_Finalized(&over);
  BOOST_TEST(over == 0);
}

BOOST_AUTO_TEST_CASE(a_users_communicator_is_duplicated) {
  int world_rank = 0, world_size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm users = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &users);
  // A message of the user's own waits on it: ours must not be taken for it.
  int sent = 41 + world_rank, got = 0;
  MPI_Request requests[2];
  MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, users, &requests[0]);
  {
    ledger book;
    const auto made = mpi_transport::duplicate_of(users);
    BOOST_TEST(made->handle() != users);
    communicator group(mpi_transport::duplicate_of(users), "users", book);
    BOOST_TEST(group.size() == (world_size + 1 - world_rank % 2) / 2);
    check_every_collective(group, 5);
  }
  int size = 0, rank = 0;
  MPI_Comm_size(users, &size);
  MPI_Comm_rank(users, &rank);
  MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 0, users, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  BOOST_TEST(got > 40);
  MPI_Comm_free(&users);
}

BOOST_AUTO_TEST_CASE(groups_of_a_mesh) {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  using grid = mesh<axis::data, axis::tensor>;
  const int tensor = size % 2 == 0 ? 2 : 1;
  ranks<grid> all(session().world(), grid({size / tensor, tensor}));
  std::vector<std::int64_t> sum{all.rank()};
  communicate::all_reduce(all.on<axis::tensor>(), std::span(sum));
  BOOST_TEST(sum[0] == (tensor == 1 ? all.rank() : all.rank() / 2 * 4 + 1));
  sum = {all.rank()};
  communicate::all_reduce(all.on<axis::data>(), std::span(sum));
  std::int64_t right = 0;
  for (int rank = all.rank() % tensor; rank < size; rank += tensor) right += rank;
  BOOST_TEST(sum[0] == right);
  all.compare_plans();
  BOOST_CHECK_THROW(ranks<grid>(session().world(), grid({size + 1, 1})), error);
}

BOOST_AUTO_TEST_CASE(fixed_sums_do_not_depend_on_buckets) {
  ledger book;
  communicator group(session().world(), "data", book, {.sums = sum_order::fixed});
  const random_stream draws(7, "values", static_cast<std::uint64_t>(group.rank()));
  std::vector<double> values;
  for (std::int64_t i = 0; i < 1009; ++i) values.push_back(draws.normal(i));
  std::vector<double> whole = values;
  communicate::all_reduce(group, std::span(whole));
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{7}, std::size_t{333}}) {
    std::vector<double> cut = values;
    for (std::size_t begin = 0; begin < cut.size(); begin += bucket) {
      communicate::all_reduce(group,
                              std::span(cut).subspan(begin, std::min(bucket, cut.size() - begin)));
    }
    BOOST_TEST((cut == whole));
  }
}

BOOST_AUTO_TEST_CASE(a_failed_call_names_rank_axis_and_call) {
  ledger book;
  book.set_step(5);
  communicator group(session().world(), "tensor", book);
  if (group.size() == 1) return;
  // A longer message than the receive expects is an error of MPI's, on the receiver.
  std::vector<float> sent(6), got(5);
  if (group.rank() == 0) communicate::send(group, std::span(sent), 1, {.tensor = "stream"});
  if (group.rank() == 1) {
    BOOST_CHECK_EXCEPTION(
        communicate::receive(group, std::span(got), 0, {.tensor = "stream"}), error,
        [&](const error& e) {
          const std::string text = e.what();
          const auto has = [&](const std::string& part) {
            return text.find(part) != std::string::npos;
          };
          return e.kind() == error_kind::disagreement &&
                 has(joined("rank 1 of axis tensor (", group.size(), " ranks) at step 5")) &&
                 has("receive of 5 fp32 from rank 0 'stream'");
        });
  }
  // A shorter one is not, for MPI; it is for us.
  if (group.rank() == 0) communicate::send(group, std::span(got), 1);
  if (group.rank() == 1) {
    BOOST_CHECK_EXCEPTION(
        communicate::receive(group, std::span(sent), 0), error, [](const error& e) {
          return std::string(e.what()).find("got 5 elements where it expects 6") !=
                 std::string::npos;
        });
  }
  communicate::barrier(group);
}
