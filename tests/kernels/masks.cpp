// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"
#include "tenon/kernel/fuse.hpp"

using namespace tenon;
using samples::matrix;

BOOST_AUTO_TEST_CASE(masks_do_not_depend_on_the_layout) {
  // T-19: any part of the tensor sees the mask of the whole.
  const random_stream stream(11, "mask", 1);
  const std::int64_t batch = 4, sequence = 6, columns = 10;
  matrix<fp32> whole(batch * sequence, columns);
  matrix<fp32> ones(batch * sequence, columns);
  for (std::int64_t i = 0; i < ones.rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) ones(i, j) = 1;
  }
  const float p = 0.5F;
  kernel::run(kernel::read{ones.view()} |
              kernel::dropout{p, stream, {0, {0}, sequence, sequence, 0, columns}} |
              kernel::write{whole.view()});
  std::int64_t dropped = 0;
  for (std::int64_t i = 0; i < whole.rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      dropped += whole(i, j) == 0 ? 1 : 0;
      BOOST_TEST((whole(i, j) == 0 || whole(i, j) == 2));
    }
  }
  BOOST_TEST(dropped > 80);  // of 240
  BOOST_TEST(dropped < 160);
  // Sequences 1 and 2, their positions 2 to 5, columns 3 to 9.
  matrix<fp32> part(2 * 4, 7);
  kernel::run(kernel::read{ones.view().rows_from(0, 8).columns_from(0, 7)} |
              kernel::dropout{p, stream, {1, {2}, 4, sequence, 3, columns}} |
              kernel::write{part.view()});
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t s = 0; s < 4; ++s) {
      for (std::int64_t c = 0; c < 7; ++c) {
        BOOST_TEST(part(b * 4 + s, c) == whole((1 + b) * sequence + 2 + s, 3 + c));
      }
    }
  }
  // Another step draws another mask.
  matrix<fp32> next(batch * sequence, columns);
  kernel::run(
      kernel::read{ones.view()} |
      kernel::dropout{p, random_stream(11, "mask", 2), {0, {0}, sequence, sequence, 0, columns}} |
      kernel::write{next.view()});
  BOOST_TEST(!next.same_as(whole));
}

BOOST_AUTO_TEST_CASE(the_threshold_of_dropout_is_the_comparison_of_uniform_numbers) {
  for (const float p : {0.0F, 1e-8F, 0.1F, 0.25F, 0.3F, 0.5F, 0.999F, 0.99999994F}) {
    const std::uint32_t least = kernel::dropout::threshold(p);
    for (std::uint32_t word = least > 2 ? least - 2 : 0; word < least + 3 && word < (1U << 24);
         ++word) {
      BOOST_TEST((word >= least) == (static_cast<float>(word) * 0x1p-24F >= p));
    }
  }
}
