// SPDX-License-Identifier: Apache-2.0
#include "tenon/kernel/attention.hpp"

#include <limits>

#include "samples.hpp"

using namespace tenon;
using samples::matrix;

namespace {

/// A problem of attention: a shape and its heads' map.
struct problem {
  std::int64_t batch = 1;
  std::int64_t q_length = 0;
  std::int64_t k_length = 0;
  std::vector<int> kv_of_head;
  std::int64_t kv_heads = 1;
  std::int64_t width = 4;
  std::int64_t q_offset = 0;
  std::int64_t k_offset = 0;
  bool causal = true;
  float p = 0;
  position_runs q_runs{};  // instead of the offsets, when given
  position_runs k_runs{};
  std::vector<std::int32_t> documents = {};  // [batch, positions]

  kernel::attention_shape shape() const {
    kernel::attention_shape s;
    s.batch = batch;
    s.q_length = q_length;
    s.k_length = k_length;
    s.heads = static_cast<std::int64_t>(kv_of_head.size());
    s.kv_heads = kv_heads;
    s.width = width;
    s.scale = 1 / std::sqrt(static_cast<double>(width));
    s.kv_of_head = kv_of_head;
    s.q_positions = q_runs == position_runs{} ? position_runs{q_offset} : q_runs;
    s.k_positions = k_runs == position_runs{} ? position_runs{k_offset} : k_runs;
    s.document_begins = documents;
    s.positions = static_cast<std::int64_t>(documents.size()) / std::max<std::int64_t>(batch, 1);
    s.causal = causal;
    s.dropout = {p, random_stream(3, "dropout", 5), 2, 1, 9, 1000, 2000};
    return s;
  }
  std::int64_t heads() const { return static_cast<std::int64_t>(kv_of_head.size()); }
};

template <class T>
struct operands {
  explicit operands(const problem& p, double size = 2)
      : q(p.batch * p.q_length, p.heads() * p.width, "q", size),
        k(p.batch * p.k_length, p.kv_heads * p.width, "k", size),
        v(p.batch * p.k_length, p.kv_heads * p.width, "v", size),
        o_gradient(p.batch * p.q_length, p.heads() * p.width, "slope") {}
  matrix<T> q, k, v, o_gradient;
};

template <class T>
struct results {
  explicit results(const problem& p)
      : o(p.batch * p.q_length, p.heads() * p.width, "old"),
        dq(p.batch * p.q_length, p.heads() * p.width, "old"),
        dk(p.batch * p.k_length, p.kv_heads * p.width, "old"),
        dv(p.batch * p.k_length, p.kv_heads * p.width, "old"),
        log_sum_exp(static_cast<std::size_t>(p.batch * p.heads() * p.q_length)) {}
  matrix<T> o, dq, dk, dv;
  std::vector<wide<T>> log_sum_exp;
};

template <class T>
results<T> by_kernel(const problem& p, const operands<T>& x) {
  results<T> r(p);
  kernel::attention(r.o.view(), std::span<wide<T>>(r.log_sum_exp), x.q.view(), x.k.view(),
                    x.v.view(), p.shape());
  kernel::attention_backward(r.dq.view(), r.dk.view(), r.dv.view(), x.o_gradient.view(), x.q.view(),
                             x.k.view(), x.v.view(), r.o.view(), r.log_sum_exp, p.shape());
  return r;
}

/// Attention written down as it is defined, with the whole row of probabilities, in fp64.
results<fp64> by_definition(const problem& p, double size) {
  const operands<fp64> x(p, size);
  const kernel::attention_shape shape = p.shape();
  results<fp64> r(p);
  r.o = matrix<fp64>(r.o.rows, r.o.columns);
  r.dq = r.o;
  r.dk = matrix<fp64>(r.dk.rows, r.dk.columns);
  r.dv = r.dk;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads(); ++h) {
      const std::int64_t q_column = h * p.width;
      const std::int64_t column = p.kv_of_head[static_cast<std::size_t>(h)] * p.width;
      for (std::int64_t i = 0; i < p.q_length; ++i) {
        const std::int64_t row = b * p.q_length + i;
        std::vector<std::int64_t> keys;
        for (std::int64_t j = 0; j < p.k_length; ++j) {
          const std::int64_t from = shape.q_positions.at(i);
          const std::int64_t to = shape.k_positions.at(j);
          const bool same = p.documents.empty() ||
                            to >= p.documents[static_cast<std::size_t>(b * shape.positions + from)];
          if (!p.causal || (to <= from && same)) keys.push_back(j);
        }
        auto& kept = r.log_sum_exp[static_cast<std::size_t>((b * p.heads() + h) * p.q_length + i)];
        kept = -std::numeric_limits<double>::infinity();
        if (keys.empty()) continue;
        std::vector<double> share;
        double most = -1e300;
        for (const std::int64_t j : keys) {
          double score = 0;
          for (std::int64_t c = 0; c < p.width; ++c) {
            score += x.q.at(row, q_column + c) * x.k.at(b * p.k_length + j, column + c);
          }
          share.push_back(score * shape.scale);
          most = std::max(most, share.back());
        }
        double total = 0;
        for (double& one : share) total += one = std::exp(one - most);
        kept = most + std::log(total);
        std::vector<double> slope;  // of the probabilities
        std::vector<double> mask;
        double inner = 0;
        for (std::size_t n = 0; n < keys.size(); ++n) {
          const std::int64_t key = b * p.k_length + keys[n];
          share[n] /= total;
          const std::int64_t index =
              ((((2 + b) * 9 + 1 + h) * 1000) + shape.q_positions.at(i)) * 2000 +
              shape.k_positions.at(keys[n]);
          const bool drop = shape.dropout.stream.uniform(index) < p.p;
          mask.push_back(drop ? 0.0 : 1 / (1 - double{p.p}));
          double s = 0;
          for (std::int64_t c = 0; c < p.width; ++c) {
            r.o(row, q_column + c) += share[n] * mask[n] * x.v.at(key, column + c);
            r.dv(key, column + c) += share[n] * mask[n] * x.o_gradient.at(row, q_column + c);
            s += x.o_gradient.at(row, q_column + c) * x.v.at(key, column + c);
          }
          slope.push_back(s * mask[n]);
          inner += share[n] * slope[n];
        }
        for (std::size_t n = 0; n < keys.size(); ++n) {
          const std::int64_t key = b * p.k_length + keys[n];
          const double s = share[n] * (slope[n] - inner) * shape.scale;
          for (std::int64_t c = 0; c < p.width; ++c) {
            r.dq(row, q_column + c) += s * x.k.at(key, column + c);
            r.dk(key, column + c) += s * x.q.at(row, q_column + c);
          }
        }
      }
    }
  }
  return r;
}

template <class T>
void check(const problem& p, double size = 2) {
  const operands<T> x(p, size);
  const results<T> got = by_kernel(p, x);
  const results<fp64> right = by_definition(p, size);
  // In bf16 the backward starts from the rounded output: a few roundings more.
  const double bar = (std::is_same_v<T, bf16> ? 8 : 1) * samples::bar<T>;
  BOOST_TEST_CONTEXT("q " << p.q_length << " k " << p.k_length << " heads " << p.heads()
                          << " offset " << p.q_offset << " causal " << p.causal << " p " << p.p) {
    BOOST_TEST(samples::difference(got.o, right.o) <= bar);
    BOOST_TEST(samples::difference(got.dv, right.dv) <= bar);
    BOOST_TEST(samples::difference(got.dq, right.dq) <= bar);
    BOOST_TEST(samples::difference(got.dk, right.dk) <= bar);
    for (std::size_t i = 0; i < right.log_sum_exp.size(); ++i) {
      const double expected = right.log_sum_exp[i];
      const auto kept = static_cast<double>(got.log_sum_exp[i]);
      BOOST_TEST(
          (kept == expected || std::abs(kept - expected) <= 1e3 * samples::rounding<wide<T>> *
                                                                std::max(1.0, std::abs(expected))));
    }
    BOOST_TEST((got.o.gaps_untouched() && got.dq.gaps_untouched() && got.dk.gaps_untouched() &&
                got.dv.gaps_untouched()));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(attention_agrees_with_its_definition, T, samples::all_elements) {
  for (const std::int64_t length : {1, 7, 63, 64, 65, 130}) {
    check<T>({.batch = 2,
              .q_length = length,
              .k_length = length,
              .kv_of_head = {0, 1},
              .kv_heads = 2,
              .width = 8});
  }
  // Several tiles of keys, with online softmax between them.
  check<T>({.q_length = 300, .k_length = 300, .kv_of_head = {0}, .width = 16});
  check<T>({.q_length = 70, .k_length = 520, .kv_of_head = {0}, .width = 5, .causal = false});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(q_heads_may_share_kv_heads_unevenly, T, samples::all_elements) {
  check<T>({.batch = 2, .q_length = 20, .k_length = 20, .kv_of_head = {0, 0, 0, 1}, .kv_heads = 2});
  check<T>({.q_length = 20, .k_length = 20, .kv_of_head = {1, 0, 1}, .kv_heads = 3});
  check<T>({.q_length = 20, .k_length = 20, .kv_of_head = {0}, .kv_heads = 1});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(lengths_and_offsets_may_differ, T, samples::all_elements) {
  check<T>({.q_length = 10, .k_length = 330, .kv_of_head = {0}, .q_offset = 320});
  check<T>({.q_length = 70, .k_length = 20, .kv_of_head = {0}, .q_offset = 5, .k_offset = 30});
  check<T>({.q_length = 9, .k_length = 33, .kv_of_head = {0, 0}, .q_offset = 7, .causal = false});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_without_keys_give_zeros, T, samples::all_elements) {
  // T-18: aligned to the end, most queries stand before the first key.
  for (const std::int64_t length : {76, 34, 146}) {
    const problem p{.q_length = length, .k_length = 1, .kv_of_head = {0}, .q_offset = 1 - length};
    check<T>(p);
    const results<T> got = by_kernel(p, operands<T>(p));
    for (std::int64_t i = 0; i + 1 < length; ++i) {
      for (std::int64_t c = 0; c < p.width; ++c) {
        BOOST_TEST((got.o.at(i, c) == 0 && got.dq.at(i, c) == 0));
      }
      BOOST_TEST(got.log_sum_exp[static_cast<std::size_t>(i)] ==
                 -std::numeric_limits<wide<T>>::infinity());
    }
  }
  check<T>({.q_length = 0, .k_length = 5, .kv_of_head = {0}});
  check<T>({.q_length = 5, .k_length = 0, .kv_of_head = {0}});
  check<T>({.batch = 0, .q_length = 5, .k_length = 5, .kv_of_head = {0}});
  check<T>({.q_length = 5, .k_length = 5, .kv_of_head = {}, .kv_heads = 0});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(dropout_is_a_function_of_the_global_place, T, samples::all_elements) {
  check<T>({.batch = 2, .q_length = 70, .k_length = 70, .kv_of_head = {0, 0}, .p = 0.3F});
  check<T>({.q_length = 40, .k_length = 300, .kv_of_head = {0}, .q_offset = 250, .p = 0.1F});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_may_stand_in_two_runs_of_positions, T, samples::all_elements) {
  // A piece from the front and one from the back of 400 positions, each ending inside a tile.
  const position_runs front_and_back{70, 75, 300};
  check<T>({.batch = 2,
            .q_length = 150,
            .k_length = 150,
            .kv_of_head = {0},
            .q_runs = front_and_back,
            .k_runs = front_and_back});
  check<T>({.q_length = 150,
            .k_length = 140,
            .kv_of_head = {0},
            .p = 0.2F,
            .q_runs = front_and_back,
            .k_runs = {0, 70, 330}});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(documents_are_masked_from_one_another, T, samples::all_elements) {
  std::vector<std::int32_t> begins;
  for (const std::vector<int>& starts :
       {std::vector<int>{0, 1, 2, 90, 290, 399}, {0}, {0, 150, 300, 310}}) {
    for (int i = 0; i < 400; ++i) {
      begins.push_back(*std::prev(std::upper_bound(starts.begin(), starts.end(), i)));
    }
  }
  for (const float p : {0.0F, 0.2F}) {
    check<T>({.batch = 3,
              .q_length = 400,
              .k_length = 400,
              .kv_of_head = {0},
              .p = p,
              .documents = begins});
    check<T>({.batch = 3,
              .q_length = 150,
              .k_length = 150,
              .kv_of_head = {0},
              .p = p,
              .q_runs = {70, 75, 300},
              .k_runs = {0, 70, 320},
              .documents = begins});
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(blocks_of_keys_merge, T, samples::all_elements) {
  // T-15: scores 1, 2, 3, 4, values 10, 20, 30, 40, two keys a block, and blocks of no key.
  matrix<T> q(1, 1), keys(4, 1), values(4, 1);
  q(0, 0) = T(1.0F);
  for (std::int64_t i = 0; i < 4; ++i) {
    keys(i, 0) = T(static_cast<float>(i + 1));
    values(i, 0) = T(static_cast<float>(10 * i + 10));
  }
  matrix<wide<T>> o(1, 1);
  std::vector<wide<T>> kept(1);
  const std::vector<int> map{0};
  const auto merge = [&](std::int64_t begin, std::int64_t count, std::int64_t place) {
    kernel::attention_shape shape{.batch = 1,
                                  .q_length = 1,
                                  .k_length = count,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .width = 1,
                                  .kv_of_head = map,
                                  .q_positions = {place},
                                  .k_positions = {begin}};
    kernel::attention_to_block<T>(
        o.view(), std::span(kept), q.view(), keys.view().rows_from(begin, count),
        values.view().rows_from(begin, count), shape,
        kept[0] == 0 ? kernel::output::overwrite : kernel::output::accumulate);
  };
  const auto holds = [&](double value, double log_sum_exp) {
    BOOST_TEST(static_cast<double>(o(0, 0)) == value, boost::test_tools::tolerance(1e-6));
    BOOST_TEST(static_cast<double>(kept[0]) == log_sum_exp, boost::test_tools::tolerance(1e-6));
  };
  merge(2, 2, 0);  // keys behind the query: none is seen
  BOOST_TEST((o(0, 0) == 0 && kept[0] == -std::numeric_limits<wide<T>>::infinity()));
  merge(2, 2, 0);
  BOOST_TEST((o(0, 0) == 0 && kept[0] == -std::numeric_limits<wide<T>>::infinity()));
  merge(0, 2, 3);
  holds(17.3105858, 2.3132617);
  merge(2, 0, 3);
  merge(2, 2, 0);
  holds(17.3105858, 2.3132617);
  merge(2, 2, 3);
  holds(34.926527, 4.440190);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(backward_of_blocks_adds_up, T, samples::all_elements) {
  const problem p{.batch = 2, .q_length = 90, .k_length = 90, .kv_of_head = {0, 0}, .p = 0.1F};
  const operands<T> x(p);
  const results<T> all = by_kernel(p, x);
  matrix<wide<T>> dq(all.dq.rows, all.dq.columns), dk(all.dk.rows, all.dk.columns), dv(dk);
  for (const std::int64_t begin : {std::int64_t{30}, std::int64_t{0}}) {
    const std::int64_t count = begin == 0 ? 30 : 60;
    matrix<T> k(p.batch * count, p.width), v(p.batch * count, p.width);
    matrix<wide<T>> k_sums(p.batch * count, p.width), v_sums(p.batch * count, p.width);
    const auto each = [&](auto&& f) {
      for (std::int64_t row = 0; row < p.batch * count; ++row) {
        const std::int64_t from = row / count * p.k_length + begin + row % count;
        for (std::int64_t c = 0; c < p.width; ++c) f(row, from, c);
      }
    };
    each([&](std::int64_t row, std::int64_t from, std::int64_t c) {
      k(row, c) = x.k.view()(from, c);
      v(row, c) = x.v.view()(from, c);
    });
    kernel::attention_shape shape = p.shape();
    shape.k_length = count;
    shape.k_positions = {begin};
    kernel::attention_backward_of_block<T>(
        dq.view(), k_sums.view(), v_sums.view(), x.o_gradient.view(), x.q.view(), k.view(),
        v.view(), all.o.view(), all.log_sum_exp, shape,
        begin == 0 ? kernel::output::accumulate : kernel::output::overwrite);
    each([&](std::int64_t row, std::int64_t from, std::int64_t c) {
      dk(from, c) = k_sums(row, c);
      dv(from, c) = v_sums(row, c);
    });
  }
  const double bar = 2 * samples::bar<T>;
  BOOST_TEST(samples::difference(all.dq, dq) <= bar);
  BOOST_TEST(samples::difference(all.dk, dk) <= bar);
  BOOST_TEST(samples::difference(all.dv, dv) <= bar);
}

BOOST_AUTO_TEST_CASE(pairs_are_counted) {
  const problem p{.batch = 2,
                  .q_length = 5,
                  .k_length = 5,
                  .kv_of_head = {0, 0, 0},
                  .documents = {0, 0, 2, 2, 2, 0, 0, 0, 0, 0}};
  const operands<fp32> x(p);
  const std::int64_t before = kernel::attention_pairs();
  by_kernel(p, x);
  // 1 + 2 + 1 + 2 + 3 and 1 + 2 + 3 + 4 + 5, three heads, forward and backward.
  BOOST_TEST(kernel::attention_pairs() - before == (9 + 15) * 3 * 2);
}

BOOST_AUTO_TEST_CASE(extreme_scores_stay_finite) {
  // Scores of tens of thousands: only their differences count.
  check<fp64>({.q_length = 65, .k_length = 65, .kv_of_head = {0}, .width = 8}, 100);
  const problem p{.q_length = 65, .k_length = 65, .kv_of_head = {0}, .width = 8};
  const results<fp32> got = by_kernel(p, operands<fp32>(p, 200));
  for (const auto* result : {&got.o, &got.dq, &got.dk, &got.dv}) {
    for (std::int64_t i = 0; i < result->rows; ++i) {
      for (std::int64_t j = 0; j < result->columns; ++j) {
        BOOST_TEST(std::isfinite(result->at(i, j)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(backward_agrees_with_differences) {
  const problem p{.batch = 1,
                  .q_length = 6,
                  .k_length = 7,
                  .kv_of_head = {0, 0},
                  .width = 3,
                  .q_offset = 1,
                  .p = 0.2F};
  operands<fp64> x(p, 1);
  const results<fp64> got = by_kernel(p, x);
  const auto value = [&] { return samples::weighted(by_kernel(p, x).o, x.o_gradient); };
  BOOST_TEST(samples::difference(got.dq, samples::slopes(x.q, value)) < samples::slope_bar);
  BOOST_TEST(samples::difference(got.dk, samples::slopes(x.k, value)) < samples::slope_bar);
  BOOST_TEST(samples::difference(got.dv, samples::slopes(x.v, value)) < samples::slope_bar);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_change_nothing, T, samples::all_elements) {
  const problem p{.batch = 2,
                  .q_length = 130,
                  .k_length = 130,
                  .kv_of_head = {0, 0, 1},
                  .kv_heads = 2,
                  .width = 8,
                  .p = 0.1F};
  const operands<T> x(p);
  const results<T> one = by_kernel(p, x);
  const samples::with_threads two(2);
  const results<T> other = by_kernel(p, x);
  BOOST_TEST(one.o.same_as(other.o));
  BOOST_TEST(one.dq.same_as(other.dq));
  BOOST_TEST(one.dk.same_as(other.dk));
  BOOST_TEST(one.dv.same_as(other.dv));
  BOOST_TEST((one.log_sum_exp == other.log_sum_exp));
}

BOOST_AUTO_TEST_CASE(the_products_inside_are_listed) {
  const problem p{.batch = 2, .q_length = 300, .k_length = 300, .kv_of_head = {0, 0}, .width = 8};
  const operands<fp32> x(p);
  kernel::product_log log;
  by_kernel(p, x);
  double operations = 0;
  for (const auto& record : log.records()) {
    BOOST_TEST(record.batch == 4);
    operations += record.operations();
  }
  // Two products forward and five backward over the tiles at and below the diagonal: more than the
  // half that is needed, less than all.
  const double all = 7.0 * 2 * 4 * 300 * 300 * 8;
  BOOST_TEST(operations > all / 2);
  BOOST_TEST(operations < all * 0.7);
}

BOOST_AUTO_TEST_CASE(wrong_sizes_are_refused) {
  problem p{.q_length = 4, .k_length = 4, .kv_of_head = {0}};
  const operands<fp32> x(p);
  p.q_length = 5;
  BOOST_CHECK_THROW(by_kernel(p, x), error);
  p.q_length = 4;
  p.kv_of_head = {1};
  BOOST_CHECK_THROW(by_kernel(p, x), error);
}
