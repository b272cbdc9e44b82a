// SPDX-License-Identifier: Apache-2.0
#include "replay.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <type_traits>

#include "tenon/base/random.hpp"

namespace bench {
namespace {

using tenon::kernel::orientation;
using tenon::kernel::output;
using tenon::kernel::product_record;

void set_blas_threads(int count) {
  if (&openblas_set_num_threads != nullptr) openblas_set_num_threads(count);
}

// The threads of a library go on looking for work for some time after a call, on the cores that the
// next threads need.
void let_threads_fall_asleep() { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }

template <class F>
double timed(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Operands of one element, for as many products of a shape as are made at once.
template <class T>
struct operands {
  std::vector<T> a, b, c;

  void make_room(const product_record& r) {
    const auto grow = [](std::vector<T>& values, std::int64_t size) {
      const auto old = static_cast<std::int64_t>(values.size());
      if (size <= old) return;
      values.resize(static_cast<std::size_t>(size));
      const tenon::random_stream random(1, "operands");
      for (std::int64_t i = old; i < size; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<T>(random.uniform(i) - 0.5F);
      }
    };
    grow(a, r.batch * r.m * r.k);
    grow(b, r.batch * r.k * r.n);
    grow(c, r.batch * r.m * r.n);
  }

  // Rows [row, row + rows) and columns [column, column + columns) of one of the results.
  void call_part(const product_record& r, std::int64_t item, std::int64_t row, std::int64_t rows,
                 std::int64_t column, std::int64_t columns) {
    if (rows == 0 || columns == 0) return;
    const bool ta = r.a_form == orientation::transposed;
    const bool tb = r.b_form == orientation::transposed;
    const T* from_a = a.data() + item * r.m * r.k + (ta ? row : row * r.k);
    const T* from_b = b.data() + item * r.k * r.n + (tb ? column * r.k : column);
    tenon::kernel::detail::call_blas(
        ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, static_cast<int>(rows),
        static_cast<int>(columns), static_cast<int>(r.k), T{1}, from_a,
        static_cast<int>(ta ? r.m : r.k), from_b, static_cast<int>(tb ? r.k : r.n),
        r.how == output::accumulate ? T{1} : T{0}, c.data() + item * r.m * r.n + row * r.n + column,
        static_cast<int>(r.n));
  }
  void call(const product_record& r, std::int64_t item) { call_part(r, item, 0, r.m, 0, r.n); }

  // The same product, its longer side cut in parts.
  void call_cut(const product_record& r, int parts) {
    const bool by_rows = r.m >= r.n;
    const std::int64_t side = by_rows ? r.m : r.n;
    const std::int64_t each = ((side + parts - 1) / parts + 15) / 16 * 16;
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int part = 0; part < parts; ++part) {
      const std::int64_t begin = std::min(side, part * each);
      const std::int64_t size = std::min(side, begin + each) - begin;
      if (by_rows) {
        call_part(r, 0, begin, size, 0, r.n);
      } else {
        call_part(r, 0, 0, r.m, begin, size);
      }
    }
  }
};

}  // namespace

bool blas_threads_can_be_set() { return &openblas_set_num_threads != nullptr; }

struct replay::impl {
  std::vector<product_record> whole;  // one product each
  std::vector<product_record> tiles;  // many small ones each
  int threads = 1;
  operands<float> fp32;
  operands<double> fp64;

  template <class F>
  void with_operands(const product_record& r, F&& f) {
    if (r.element == tenon::element_kind::fp64) {
      f(fp64);
    } else {
      f(fp32);
    }
  }
};

replay::replay(const std::vector<product_record>& records, int threads) : impl_(new impl) {
  impl_->threads = threads;
  for (const product_record& r : records) {
    if (r.k == 0) continue;
    (r.batch > 1 ? impl_->tiles : impl_->whole).push_back(r);
    impl_->with_operands(r, [&](auto& own) { own.make_room(r); });
  }
}

replay::~replay() { delete impl_; }

replay::times replay::seconds() {
  impl& own = *impl_;
  times spent;
  let_threads_fall_asleep();
  set_blas_threads(own.threads);
  spent.threads_of_blas = timed([&] {
    for (const product_record& r : own.whole) {
      own.with_operands(r, [&](auto& values) { values.call(r, 0); });
    }
  });
  let_threads_fall_asleep();
  set_blas_threads(1);
  spent.threads_of_ours = timed([&] {
    for (const product_record& r : own.whole) {
      own.with_operands(r, [&](auto& values) { values.call_cut(r, own.threads); });
    }
  });
  spent.tiles = timed([&] {
    for (const product_record& r : own.tiles) {
      own.with_operands(r, [&](auto& values) {
#pragma omp parallel for schedule(static) num_threads(own.threads)
        for (std::int64_t i = 0; i < r.batch; ++i) values.call(r, i);
      });
    }
  });
  return spent;
}

double replay::square_seconds(std::int64_t size) {
  const product_record r{.m = size, .n = size, .k = size};
  impl_->fp32.make_room(r);
  let_threads_fall_asleep();
  set_blas_threads(impl_->threads);
  const double spent = timed([&] { impl_->fp32.call(r, 0); });
  set_blas_threads(1);
  let_threads_fall_asleep();
  return spent;
}

double replay::operations() const {
  double all = 0;
  for (const auto* list : {&impl_->whole, &impl_->tiles}) {
    for (const product_record& r : *list) all += r.operations();
  }
  return all;
}

std::int64_t replay::calls() const {
  auto all = static_cast<std::int64_t>(impl_->whole.size());
  for (const product_record& r : impl_->tiles) all += r.batch;
  return all;
}

}  // namespace bench
