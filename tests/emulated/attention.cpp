// SPDX-License-Identifier: Apache-2.0
// Attention on teams of many lanes against the host's: forward, backward, merged with other keys.
#include "tenon/kernel/attention.hpp"
#include "both.hpp"

using namespace tenon;

namespace {

struct problem {
  std::int64_t batch = 1;
  std::int64_t q_length = 0;
  std::int64_t k_length = 0;
  std::vector<int> kv_of_head;
  std::int64_t kv_heads = 1;
  std::int64_t width = 4;
  position_runs q_runs{};
  position_runs k_runs{};
  bool causal = true;
  float p = 0;
  std::vector<std::int32_t> documents = {};  // [batch, positions]

  kernel::attention_shape shape(std::span<const std::int32_t> begins) const {
    kernel::attention_shape s;
    s.batch = batch;
    s.q_length = q_length;
    s.k_length = k_length;
    s.heads = static_cast<std::int64_t>(kv_of_head.size());
    s.kv_heads = kv_heads;
    s.width = width;
    s.scale = 1 / std::sqrt(static_cast<double>(width));
    s.kv_of_head = kv_of_head;
    s.q_positions = q_runs;
    s.k_positions = k_runs;
    s.causal = causal;
    s.document_begins = begins;
    s.positions = static_cast<std::int64_t>(documents.size()) / batch;
    s.dropout = {p, random_stream(3, "dropout", 5), 2, 1, 9, 1000, 2000};
    return s;
  }
};

template <class T>
void enter() {
  kernel::enter_emulated_programs(kernel::attention_inner_programs<T>{});
  kernel::enter_emulated_programs(kernel::attention_programs<T, T, 64>{});
  if constexpr (!std::is_same_v<T, fp64>) {
    kernel::enter_emulated_programs(kernel::attention_programs<T, T, 128>{});
  }
  if constexpr (std::is_same_v<T, bf16>) {
    kernel::enter_emulated_programs(kernel::attention_programs<T, fp32, 64>{});
  }
}

// Forward over other keys first where `merged`, then over these; backward with dq added to.
template <class T, class Out>
void compare(const problem& p, bool merged, std::int64_t gap, double bar) {
  using W = wide<T>;
  const auto heads = static_cast<std::int64_t>(p.kv_of_head.size());
  const std::int64_t q_rows = p.batch * p.q_length;
  const std::int64_t k_rows = p.batch * p.k_length;
  const samples::matrix<T> q(q_rows, heads * p.width, "q", 2);
  const samples::matrix<T> k(k_rows, p.kv_heads * p.width, "k", 2);
  const samples::matrix<T> v(k_rows, p.kv_heads * p.width, "v", 2);
  const samples::matrix<T> before_k(k_rows, p.kv_heads * p.width, "other k", 2);
  const samples::matrix<T> slope(q_rows, heads * p.width, "slope");
  samples::matrix<Out> o(q_rows, heads * p.width, "old");
  samples::matrix<Out> dq(q_rows, heads * p.width, "old");
  samples::matrix<Out> dk(k_rows, p.kv_heads * p.width, "old");
  samples::matrix<Out> dv(k_rows, p.kv_heads * p.width, "old");
  std::vector<W> kept(static_cast<std::size_t>(p.batch * heads * p.q_length));
  const auto all = [&](auto& to, auto log_sum_exp, auto& a_q, auto& a_k, auto& a_v, auto& a_before,
                       auto& a_slope, auto& a_dq, auto& a_dk, auto& a_dv, auto& a_rounded,
                       std::span<const std::int32_t> begins) {
    const auto shape = p.shape(begins);
    using kernel::output;
    if (merged) {
      kernel::attention_to_block<T>(to.view(), log_sum_exp, a_q.view(), a_before.view(), a_v.view(),
                                    shape, output::overwrite);
    }
    kernel::attention_to_block<T>(to.view(), log_sum_exp, a_q.view(), a_k.view(), a_v.view(), shape,
                                  merged ? output::accumulate : output::overwrite);
    kernel::attention_backward_of_block<T>(
        a_dq.view(), a_dk.view(), a_dv.view(), a_slope.view(), a_q.view(), a_k.view(), a_v.view(),
        a_rounded.view(), log_sum_exp, shape, merged ? output::accumulate : output::overwrite);
  };
  // The backward reads o in the element of the operands: any numbers do.
  const samples::matrix<T> rounded(q_rows, heads * p.width, "o");
  all(o, std::span<W>(kept), q, k, v, before_k, slope, dq, dk, dv, rounded, p.documents);

  for (const auto order : {kernel::lane_order::forward, kernel::lane_order::backward}) {
    const both::on_emulated here(order);
    both::matrix<T> a_q(q, gap), a_k(k, gap), a_v(v, gap), a_before(before_k, gap),
        a_slope(slope, gap), a_rounded(rounded, gap);
    both::matrix<Out> a_o(samples::matrix<Out>(q_rows, heads * p.width, "old"), gap);
    both::matrix<Out> a_dq(samples::matrix<Out>(q_rows, heads * p.width, "old"), gap);
    both::matrix<Out> a_dk(samples::matrix<Out>(k_rows, p.kv_heads * p.width, "old"), gap);
    both::matrix<Out> a_dv(samples::matrix<Out>(k_rows, p.kv_heads * p.width, "old"), gap);
    both::numbers<W> a_kept(static_cast<std::int64_t>(kept.size()));
    both::numbers<std::int32_t> begins(p.documents);
    all(a_o, a_kept.span(), a_q, a_k, a_v, a_before, a_slope, a_dq, a_dk, a_dv, a_rounded,
        begins.span());
    BOOST_TEST(both::apart(a_o.back(), o) <= bar);
    BOOST_TEST(both::apart(a_kept.back(), kept) <= bar);
    BOOST_TEST(both::apart(a_dq.back(), dq) <= bar);
    BOOST_TEST(both::apart(a_dk.back(), dk) <= bar);
    BOOST_TEST(both::apart(a_dv.back(), dv) <= bar);
  }
}

const std::vector<int> two_groups{0, 0, 1, 1};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(as_on_the_host, T, samples::all_elements) {
  enter<T>();
  const double bar = both::bar<T>;
  const problem causal{.batch = 2,
                       .q_length = 70,
                       .k_length = 70,
                       .kv_of_head = two_groups,
                       .kv_heads = 2,
                       .width = 24};
  compare<T, T>(causal, false, 0, bar);
  compare<T, T>(causal, true, 3, bar);
  problem dropped = causal;
  dropped.p = 0.3F;
  dropped.q_length = dropped.k_length = 33;
  compare<T, T>(dropped, false, 0, bar);
  problem whole = causal;
  whole.causal = false;
  whole.q_length = 5;
  whole.width = 64;
  compare<T, T>(whole, true, 0, bar);
}

BOOST_AUTO_TEST_CASE(heads_of_128) {
  enter<bf16>();
  enter<fp32>();
  const problem wide_heads{.q_length = 65, .k_length = 65, .kv_of_head = {0}, .width = 128};
  compare<bf16, bf16>(wide_heads, false, 0, both::bar<bf16>);
  compare<fp32, fp32>(wide_heads, false, 0, both::bar<fp32>);
}

BOOST_AUTO_TEST_CASE(results_of_bf16_in_fp32) {
  enter<bf16>();
  const problem ring{.q_length = 40,
                     .k_length = 40,
                     .kv_of_head = two_groups,
                     .kv_heads = 2,
                     .width = 16,
                     .q_runs = {40, 20, 100},
                     .k_runs = {0, 20, 60}};
  compare<bf16, fp32>(ring, true, 0, both::bar<bf16>);
}

// Zigzag pieces, queries before all keys, documents, one row.
BOOST_AUTO_TEST_CASE(positions_and_documents) {
  enter<fp64>();
  const double bar = both::bar<fp64>;
  compare<fp64, fp64>({.q_length = 34,
                       .k_length = 34,
                       .kv_of_head = {0, 1},
                       .kv_heads = 2,
                       .width = 8,
                       .q_runs = {0, 17, 51},
                       .k_runs = {17, 17, 34}},
                      false, 1, bar);
  compare<fp64, fp64>({.q_length = 9, .k_length = 3, .kv_of_head = {0}, .width = 2, .k_runs = {20}},
                      false, 0, bar);
  std::vector<std::int32_t> begins;
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 90; ++i) begins.push_back(i < 40 + b ? 0 : i < 70 ? 40 + b : 70);
  }
  compare<fp64, fp64>({.batch = 2,
                       .q_length = 90,
                       .k_length = 90,
                       .kv_of_head = {0},
                       .width = 8,
                       .documents = begins},
                      false, 0, bar);
}

BOOST_AUTO_TEST_CASE(heads_that_are_too_wide_are_refused) {
  enter<fp32>();
  const both::on_emulated here;
  both::matrix<fp32> x(samples::matrix<fp32>(4, 132, "x"));
  both::numbers<fp32> kept(4);
  const problem p{.q_length = 4, .k_length = 4, .kv_of_head = {0}, .width = 132};
  BOOST_CHECK_EXCEPTION(
      kernel::attention<fp32>(x.view(), kept.span(), x.view(), x.view(), x.view(), p.shape({})),
      error, [](const error& e) {
        return std::string(e.what()).find("at most 128 in fp32") != std::string::npos;
      });
}
