// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "tenon/base/check.hpp"

// Threads of OpenBLAS would stand beside our own: it is told to use one. With another BLAS the
// symbol is absent and null, and its threads are the user's to set.
extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace tenon::inline v0::kernel {

/// Whether an operand enters a product as it is stored or transposed.
enum class orientation : bool { as_stored, transposed };

/// Whether a result replaces what is there or is added to it.
enum class output : bool { overwrite, accumulate };

namespace detail {

inline void keep_blas_on_one_thread() {
  static const bool done = [] {
    if (&openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

inline void call_blas(CBLAS_TRANSPOSE a_form, CBLAS_TRANSPOSE b_form, int m, int n, int k,
                      float alpha, const float* a, int a_stride, const float* b, int b_stride,
                      float beta, float* c, int c_stride) {
  cblas_sgemm(CblasRowMajor, a_form, b_form, m, n, k, alpha, a, a_stride, b, b_stride, beta, c,
              c_stride);
}
inline void call_blas(CBLAS_TRANSPOSE a_form, CBLAS_TRANSPOSE b_form, int m, int n, int k,
                      double alpha, const double* a, int a_stride, const double* b, int b_stride,
                      double beta, double* c, int c_stride) {
  cblas_dgemm(CblasRowMajor, a_form, b_form, m, n, k, alpha, a, a_stride, b, b_stride, beta, c,
              c_stride);
}

/// A stride as BLAS takes it; of a single row it means nothing and may be larger than an int.
inline int blas_stride(std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t used = rows < 2 ? std::max<std::int64_t>(columns, 1) : stride;
  require(used <= INT_MAX, "product: rows ", used, " elements apart were given and BLAS takes at ",
          "most ", INT_MAX, "; use narrower matrices");
  return static_cast<int>(used);
}

/// C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C on this thread, in pieces of at most `most` along
/// each size (BLAS counts in int). beta is 0 (C is not read) or 1.
template <class T>
void blas_product(orientation a_form, orientation b_form, std::int64_t m, std::int64_t n,
                  std::int64_t k, T alpha, const T* a, std::int64_t a_stride, const T* b,
                  std::int64_t b_stride, T beta, T* c, std::int64_t c_stride,
                  std::int64_t most = INT_MAX) {
  const bool ta = a_form == orientation::transposed;
  const bool tb = b_form == orientation::transposed;
  for (std::int64_t i = 0; i < m; i += most) {
    const std::int64_t mi = std::min(most, m - i);
    for (std::int64_t j = 0; j < n; j += most) {
      const std::int64_t nj = std::min(most, n - j);
      T* to = c + i * c_stride + j;
      if (k == 0 && beta == T{0}) {
        for (std::int64_t row = 0; row < mi; ++row) std::fill_n(to + row * c_stride, nj, T{0});
      }
      for (std::int64_t l = 0; l < k; l += most) {
        const std::int64_t kl = std::min(most, k - l);
        const T* from_a = a + (ta ? l * a_stride + i : i * a_stride + l);
        const T* from_b = b + (tb ? j * b_stride + l : l * b_stride + j);
        call_blas(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                  static_cast<int>(mi), static_cast<int>(nj), static_cast<int>(kl), alpha, from_a,
                  ta ? blas_stride(a_stride, kl, mi) : blas_stride(a_stride, mi, kl), from_b,
                  tb ? blas_stride(b_stride, nj, kl) : blas_stride(b_stride, kl, nj),
                  l == 0 ? beta : T{1}, to, blas_stride(c_stride, mi, nj));
      }
    }
  }
}

}  // namespace detail

}  // namespace tenon::inline v0::kernel
