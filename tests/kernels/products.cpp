// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"
#include "tenon/kernel/product.hpp"

using namespace tenon;
using kernel::orientation;
using kernel::output;
using samples::matrix;

namespace {

constexpr auto stored = orientation::as_stored;
constexpr auto transposed = orientation::transposed;

template <class T>
double entry(const matrix<T>& x, orientation form, std::int64_t i, std::int64_t j) {
  return form == transposed ? x.at(j, i) : x.at(i, j);
}

/// The product by three loops in fp64.
template <class T>
matrix<fp64> by_loops(const matrix<T>& a, orientation a_form, const matrix<T>& b,
                      orientation b_form, const matrix<fp64>& start) {
  matrix<fp64> c = start;
  const std::int64_t k = a_form == transposed ? a.rows : a.columns;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        c(i, j) += entry(a, a_form, i, l) * entry(b, b_form, l, j);
      }
    }
  }
  return c;
}

template <class T, class C>
void check(std::int64_t m, std::int64_t n, std::int64_t k, orientation a_form, orientation b_form,
           output how) {
  const bool ta = a_form == transposed;
  const bool tb = b_form == transposed;
  const matrix<T> a(ta ? k : m, ta ? m : k, "a");
  const matrix<T> b(tb ? n : k, tb ? k : n, "b");
  const matrix<C> start(m, n, "c");
  const matrix<fp64> right =
      by_loops(a, a_form, b, b_form,
               how == output::accumulate ? samples::converted<fp64>(start) : matrix<fp64>(m, n));
  // What was there must not matter when it is overwritten.
  matrix<C> c = start;
  if (how == output::overwrite && m * n > 0) c(0, 0) = C(std::nanf(""));
  matrix<C> again = c;
  kernel::product(c.view(), a.view(), a_form, b.view(), b_form, how);
  BOOST_TEST_CONTEXT(m << " x " << n << " x " << k << " transposed " << ta << tb << " adds "
                       << (how == output::accumulate)) {
    // Rounding of a sum of k terms, in the worst case of the random walk, relative to the largest.
    const double sum_bar = (20 + static_cast<double>(k)) * samples::rounding<wide<T>>;
    BOOST_TEST(samples::difference(c, right) <= 2 * samples::rounding<C> + sum_bar);
    BOOST_TEST(c.gaps_untouched());
    const samples::with_threads two(2);
    kernel::product(again.view(), a.view(), a_form, b.view(), b_form, how);
    BOOST_TEST(samples::difference(again, right) <= 2 * samples::rounding<C> + sum_bar);
    BOOST_TEST(again.gaps_untouched());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(products_agree_with_loops, T, samples::all_elements) {
  for (const orientation a_form : {stored, transposed}) {
    for (const orientation b_form : {stored, transposed}) {
      for (const output how : {output::overwrite, output::accumulate}) {
        for (const std::int64_t m : {0, 1, 7, 65}) {
          for (const std::int64_t n : {0, 1, 63, 64}) {
            for (const std::int64_t k : {0, 1, 7, 65}) {
              check<T, T>(m, n, k, a_form, b_form, how);
            }
          }
        }
        check<T, T>(130, 100, 90, a_form, b_form, how);
        check<T, wide<T>>(33, 17, 65, a_form, b_form, how);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(products_of_bf16_go_through_several_panels) {
  for (const orientation a_form : {stored, transposed}) {
    for (const orientation b_form : {stored, transposed}) {
      check<bf16, bf16>(260, 520, 530, a_form, b_form, output::accumulate);
      check<bf16, fp32>(260, 520, 530, a_form, b_form, output::overwrite);
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_over_bf16_are_kept_in_fp32) {
  // T-26: gradients 1, then 255 of 2^-9: a sum kept in bf16 stays 1.
  matrix<bf16> ones(1, 256);
  matrix<bf16> terms(256, 1);
  for (std::int64_t i = 0; i < 256; ++i) {
    ones(0, i) = bf16(1.0F);
    terms(i, 0) = bf16(i == 0 ? 1.0F : 0x1p-9F);
  }
  matrix<fp32> sum(1, 1);
  kernel::product(sum.view(), ones.view(), stored, terms.view(), stored);
  BOOST_TEST(sum(0, 0) == 1.498046875F);
  // The same, one microbatch at a time, into the fp32 gradient.
  matrix<fp32> steps(1, 1);
  for (std::int64_t i = 0; i < 256; ++i) {
    kernel::product(steps.view(), ones.view().columns_from(i, 1), stored,
                    terms.view().rows_from(i, 1), stored, output::accumulate);
  }
  BOOST_TEST(steps(0, 0) == 1.498046875F);
}

BOOST_AUTO_TEST_CASE(long_sizes_go_to_blas_in_pieces) {
  const matrix<fp64> a(20, 13, "a");
  const matrix<fp64> b(13, 17, "b");
  for (const std::int64_t most : {1, 7, 100}) {
    matrix<fp64> c(20, 17, "c");
    const matrix<fp64> right = by_loops(a, stored, b, stored, c);
    kernel::detail::blas_product(stored, stored, 20, 17, 13, 1.0, a.view().data, a.view().stride,
                                 b.view().data, b.view().stride, 1.0, c.view().data,
                                 c.view().stride, most);
    BOOST_TEST(samples::difference(c, right) < 1e-14);
  }
  // A row of a matrix wider than an int has a stride that BLAS never needs; two rows need it.
  const std::int64_t wide_stride = std::int64_t{1} << 40;
  BOOST_TEST(kernel::detail::blas_stride(wide_stride, 1, 5) == 5);
  BOOST_CHECK_THROW(kernel::detail::blas_stride(wide_stride, 2, 5), error);
}

BOOST_AUTO_TEST_CASE(threads_cut_the_result_without_gaps) {
  for (const std::int64_t m : {1, 7, 16, 100, 1000}) {
    for (const std::int64_t n : {1, 15, 17, 384}) {
      for (const std::int64_t parts : {1, 2, 3, 4, 6, 7, 16}) {
        const auto grid = kernel::detail::best_grid(m, n, parts);
        BOOST_TEST(grid.rows * grid.columns == parts);
        std::int64_t covered = 0;
        for (std::int64_t i = 0; i < grid.rows; ++i) {
          const std::int64_t size = kernel::detail::part_begin(m, grid.rows, i + 1) -
                                    kernel::detail::part_begin(m, grid.rows, i);
          BOOST_TEST(size <= kernel::detail::largest_part(m, grid.rows));
          covered += size;
        }
        BOOST_TEST(covered == m);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(products_are_listed_while_a_log_lives) {
  const matrix<bf16> a(4, 3, "a");
  const matrix<bf16> b(5, 3, "b");
  matrix<bf16> c(4, 5);
  const double before = kernel::product_operations();
  kernel::product_log log;
  kernel::product(c.view(), a.view(), stored, b.view(), transposed);
  BOOST_REQUIRE(log.records().size() == 1U);
  const kernel::product_record right{
      4, 5, 3, stored, transposed, output::overwrite, element_kind::bf16, 1};
  BOOST_TEST((log.records()[0] == right));
  BOOST_TEST(kernel::product_operations() - before == 120.0);
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_match_are_refused) {
  const matrix<fp32> a(4, 3, "a");
  matrix<fp32> c(4, 5);
  BOOST_CHECK_THROW(kernel::product(c.view(), a.view(), stored, a.view(), stored), error);
  BOOST_CHECK_THROW(kernel::product(c.view(), a.view(), transposed, a.view(), stored), error);
}
