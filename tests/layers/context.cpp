// SPDX-License-Identifier: Apache-2.0
// Attention over contexts: its backward is the slope of its forward, and it gives what one rank
// gives, in every form of exchange, in both orders, with dropout and with packed documents.
#include <mutex>
#include <numeric>

#include "checked.hpp"
#include "tenon/layer/attention.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/rotary_positions.hpp"

namespace {

using contexts = mesh<axis::context, axis::tensor>;
template <class E, class S, class... Ds>
using cut_tokens =
    tenon::tensor<E, dims<batch, sequence, Ds...>,
                  placement<on<axis::context, sharded<sequence>>, on<axis::tensor, S>>>;
template <class E>
using inputs = std::tuple<cut_tokens<E, sharded<heads>, heads, head_width>,
                          cut_tokens<E, sharded<kv_heads>, kv_heads, head_width>,
                          cut_tokens<E, sharded<kv_heads>, kv_heads, head_width>>;
using turned_attention = chain<rotary_positions, causal_attention>;

// The kv heads that ranks read whose heads are cut.
std::function<partition(int)> read_by(std::int64_t all_heads, std::int64_t all_kv) {
  return [=](int parts) {
    std::vector<region> read;
    for (int r = 0; r < parts; ++r) {
      read.push_back(context_extents{.heads = partition::balanced(all_heads, parts).of(r),
                                     .heads_of_kv = all_heads / all_kv}
                         .kv_heads_of(0));
    }
    return partition::of_regions(all_kv, std::move(read));
  };
}

// A run of attention: how many tokens and heads, on what mesh, how.
struct attention_run {
  std::int64_t length = 13;
  std::int64_t all_heads = 4;
  std::int64_t all_kv = 2;
  int context = 1;
  int tensor = 1;
  context_plan plan{};
  double dropout = 0;
  std::vector<std::int32_t> begins = {};  // of documents, [batch, length]

  dim_sizes sizes() const {
    dim_sizes all;
    all.set<batch>(2)
        .set<sequence>(length)
        .set<heads>(all_heads)
        .set<kv_heads>(all_kv)
        .set<head_width>(2)
        .set_use<kv_heads>(read_by(all_heads, all_kv));
    all.context = plan;
    return all;
  }
  std::string text() const {
    return joined("length ", length, ", heads ", all_heads, ", kv ", all_kv, ", context ", context,
                  ", tensor ", tensor, ", heads parallel ", plan.heads_parallel, ", window ",
                  plan.ring_window, ", ", name_of(plan.order), ", dropout ", dropout,
                  begins.empty() ? "" : ", packed");
  }
};

// All values that a run gives, by position: o, then the gradients of q, k and v.
struct result {
  std::array<std::vector<double>, 4> values;
  std::vector<std::int64_t> pairs;  // of each rank, forward
};

// f(value, number of the element in the text's order): the sequence is the second of four dims.
template <class T, class F>
void for_each_by_position(T& x, const context_plan& plan, F&& f) {
  const token_order order =
      order_on(x.where().grid(), x.global_shape().template of<sequence>(), plan);
  const auto& extents = x.global_shape().extents;
  const std::int64_t columns = extents[2] * extents[3];
  for_each_global_index(x, [&](auto& value, std::int64_t index) {
    const std::int64_t row = index / columns;
    const std::int64_t position = order.position_of(row % extents[1]);
    f(value, static_cast<std::size_t>((row / extents[1] * extents[1] + position) * columns +
                                      index % columns));
  });
}

template <class T>
void draw(T& x, const context_plan& plan, const char* name) {
  using E = typename T::element_type;
  const random_stream stream(3, name);
  for_each_by_position(x, plan, [&](auto& value, std::size_t i) {
    value = E(static_cast<float>(stream.normal(static_cast<std::int64_t>(i))));
  });
}

template <class E, class L>
result run(const attention_run& r) {
  const std::int64_t elements = 2 * r.length * 2;
  result all;
  for (std::size_t i = 0; i < 4; ++i) {
    all.values[i].resize(static_cast<std::size_t>(elements * (i < 2 ? r.all_heads : r.all_kv)));
  }
  all.pairs.resize(static_cast<std::size_t>(r.context * r.tensor));
  std::mutex together;
  simulate(r.context * r.tensor, [&](std::unique_ptr<transport> world) {
    const contexts grid({r.context, r.tensor}, world->rank());
    ranks<contexts> group(std::move(world), grid);
    const dim_sizes sizes = r.sizes();
    run_state state{.seed = 5, .dropout = r.dropout};
    if (!r.begins.empty()) {
      buffer<std::int32_t> begins(static_cast<std::int64_t>(r.begins.size()));
      std::copy(r.begins.begin(), r.begins.end(), begins.data());
      state.documents = std::make_shared<packed_documents>(r.length, std::move(begins));
    }
    shared_parameters shared;
    bound_to<L, inputs<E>> layer(layer_context<contexts>{group, sizes, state, shared, "layer"});
    const auto made = [&]<class T>(std::type_identity<T>, const char* name) {
      using D = typename T::dims_type;
      typename T::layout_type where(sizes.of(D{}), grid);
      if constexpr (D::template has<kv_heads>) {
        where = where.template with<axis::tensor>(sizes.use_of<kv_heads>(r.tensor));
      }
      T x(group, where);
      draw(x, r.plan, name);
      return x;
    };
    using q_type = std::tuple_element_t<0, inputs<E>>;
    using k_type = std::tuple_element_t<1, inputs<E>>;
    const std::int64_t before = kernel::attention_pairs();
    auto [o, saved] = layer.forward({made(std::type_identity<q_type>{}, "q"),
                                     made(std::type_identity<k_type>{}, "k"),
                                     made(std::type_identity<k_type>{}, "v")});
    const std::int64_t pairs = kernel::attention_pairs() - before;
    auto slope = made(std::type_identity<q_type>{}, "slope");
    auto [dq, dk, dv] =
        layer.backward(slope.relabelled(gradient_layout(slope.where())), std::move(saved));
    const std::lock_guard lock(together);
    all.pairs[static_cast<std::size_t>(group.rank())] = pairs;
    // Gradients of a kv head that several ranks read are terms.
    const auto gather = [&](auto& x, std::vector<double>& to) {
      for_each_by_position(
          x, r.plan, [&](auto& value, std::size_t i) { to[i] += static_cast<double>(value); });
    };
    gather(o, all.values[0]);
    gather(dq, all.values[1]);
    gather(dk, all.values[2]);
    gather(dv, all.values[3]);
  });
  return all;
}

double largest_difference(const result& a, const result& b) {
  double most = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    double size = 1e-30;
    double apart = 0;
    for (std::size_t i = 0; i < a.values[t].size(); ++i) {
      size = std::max(size, std::abs(a.values[t][i]));
      const double here = std::abs(a.values[t][i] - b.values[t][i]);
      if (!(here <= apart)) apart = here;  // a NaN stays
    }
    if (!(apart / size <= most)) most = apart / size;
  }
  return most;
}

// Every form of exchange on every number of contexts that is given.
template <class F>
void for_all_plans(const std::vector<int>& counts, F&& f) {
  for (const int context : counts) {
    for (int together = 1; together <= context; ++together) {
      if (context % together != 0) continue;
      const int members = context / together;
      for (int window = 1; window <= members; ++window) {
        if (members % window != 0) continue;
        for (const auto order : {token_order_kind::zigzag, token_order_kind::contiguous}) {
          f(context, context_plan{order, together, window});
        }
      }
    }
  }
}

template <class E, class L = turned_attention>
void check_against_one_rank(attention_run r, const std::vector<int>& counts, double bar) {
  const int tensor = std::exchange(r.tensor, 1);
  const result one = run<E, L>(r);
  r.tensor = tensor;
  for_all_plans(counts, [&](int context, const context_plan& plan) {
    r.context = context;
    r.plan = plan;
    BOOST_TEST_CONTEXT(r.text()) {
      const result many = run<E, L>(r);
      BOOST_TEST(largest_difference(one, many) <= bar);
      BOOST_TEST(std::accumulate(many.pairs.begin(), many.pairs.end(), std::int64_t{0}) ==
                 one.pairs[0]);
    }
  });
}

const std::vector<std::int32_t> some_documents = {0, 0, 0, 3, 3, 5, 6, 6, 6, 6, 6, 6, 12,
                                                  0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8};

}  // namespace

BOOST_AUTO_TEST_CASE(backward_is_the_slope) {
  const auto check = [](const attention_run& r) {
    const gradient_report found = gradient_check<turned_attention, inputs<fp64>>(
        contexts({r.context, r.tensor}), r.sizes(), {.elements = 2, .dropout = r.dropout});
    BOOST_TEST_CONTEXT(r.text() << "\n" << found.text()) {
      BOOST_TEST(!found.all.empty());
      BOOST_TEST(found.largest() < 1e-6);
    }
  };
  for_all_plans({2, 3, 4}, [&](int context, const context_plan& plan) {
    check({.length = 7, .context = context, .plan = plan, .dropout = 0.2});
  });
  check({.length = 7, .context = 2, .tensor = 2, .plan = {.heads_parallel = 2}});
}

BOOST_AUTO_TEST_CASE(one_rank_and_several_agree) {
  check_against_one_rank<fp64>({}, {2, 3, 4, 6}, 1e-13);
  check_against_one_rank<fp64>({.dropout = 0.3}, {4}, 1e-13);
  check_against_one_rank<fp64>({.tensor = 2}, {2, 4}, 1e-13);
  check_against_one_rank<fp64>({.begins = some_documents}, {2, 3, 4}, 1e-13);
  check_against_one_rank<fp64>({.dropout = 0.3, .begins = some_documents}, {4}, 1e-13);
}

BOOST_AUTO_TEST_CASE(kv_heads_fewer_than_ranks) {
  check_against_one_rank<fp64>({.all_heads = 4, .all_kv = 1}, {4}, 1e-13);
  check_against_one_rank<fp64>({.all_heads = 6, .all_kv = 3}, {4}, 1e-13);  // heads 2, 2, 1, 1
  check_against_one_rank<fp64>({.all_heads = 2, .all_kv = 2}, {4}, 1e-13);  // two ranks have none
  check_against_one_rank<fp64>({.all_heads = 6, .all_kv = 2, .tensor = 2}, {2}, 1e-13);
}

BOOST_AUTO_TEST_CASE(ranks_without_tokens) {
  check_against_one_rank<fp64>({.length = 3}, {4, 6}, 1e-13);
  check_against_one_rank<fp64>({.length = 1}, {3}, 1e-13);
}

BOOST_AUTO_TEST_CASE(merged_in_the_wide_element) {
  check_against_one_rank<fp32>({}, {4}, 1e-5);
  // The keys of one block, then of several: a few roundings of bf16 in the rotated keys and
  // results.
  check_against_one_rank<bf16>({}, {4}, 0x1p-6);
}

// Documents through masks of another kind: each document by itself, from position 0 on.
BOOST_AUTO_TEST_CASE(packed_is_each_document_alone) {
  const attention_run packed{.begins = some_documents};
  const result all = run<fp64, turned_attention>(packed);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::int64_t begin = 0; begin < packed.length;) {
      std::int64_t end = begin;
      const auto document = [&](std::int64_t p) {
        return some_documents[b * 13 + static_cast<std::size_t>(p)];
      };
      while (end < packed.length && document(end) == begin) ++end;
      // Attention of those rows, written down as it is defined.
      const random_stream q(3, "q"), k(3, "k"), v(3, "v");
      const auto turned = [&](const random_stream& from, std::int64_t heads_here, std::int64_t p,
                              std::int64_t h) {
        const std::int64_t at =
            ((static_cast<std::int64_t>(b) * packed.length + p) * heads_here + h) * 2;
        const double x = static_cast<double>(static_cast<float>(from.normal(at)));
        const double y = static_cast<double>(static_cast<float>(from.normal(at + 1)));
        const double angle = static_cast<double>(p - begin);
        return std::array<double, 2>{x * std::cos(angle) - y * std::sin(angle),
                                     y * std::cos(angle) + x * std::sin(angle)};
      };
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t h = 0; h < 4; ++h) {
          const auto mine = turned(q, 4, i, h);
          double total = 0;
          std::array<double, 2> sum{};
          for (std::int64_t j = begin; j <= i; ++j) {
            const auto other = turned(k, 2, j, h / 2);
            const double share =
                std::exp((mine[0] * other[0] + mine[1] * other[1]) / std::sqrt(2.0));
            total += share;
            const std::int64_t at =
                ((static_cast<std::int64_t>(b) * packed.length + j) * 2 + h / 2) * 2;
            for (std::int64_t c = 0; c < 2; ++c) {
              sum[static_cast<std::size_t>(c)] +=
                  share * static_cast<double>(static_cast<float>(v.normal(at + c)));
            }
          }
          for (std::size_t c = 0; c < 2; ++c) {
            const auto at = static_cast<std::size_t>(
                ((static_cast<std::int64_t>(b) * packed.length + i) * 4 + h) * 2);
            BOOST_TEST(std::abs(all.values[0][at + c] - sum[c] / total) < 1e-13);
          }
        }
      }
      begin = end;
    }
  }
}

// Every rank has the same number of pairs where twice the contexts divide the length.
BOOST_AUTO_TEST_CASE(zigzag_is_balanced) {
  for_all_plans({2, 4}, [&](int context, const context_plan& plan) {
    attention_run r{.length = 16, .context = context, .plan = plan};
    const result many = run<fp64, causal_attention>(r);
    const bool equal = std::adjacent_find(many.pairs.begin(), many.pairs.end(),
                                          std::not_equal_to<>()) == many.pairs.end();
    BOOST_TEST_CONTEXT(r.text()) {
      BOOST_TEST(equal ==
                 (plan.order == token_order_kind::zigzag || plan.heads_parallel == context));
    }
  });
}

BOOST_AUTO_TEST_CASE(extents_that_do_not_divide_are_refused) {
  BOOST_CHECK_THROW((run<fp64, causal_attention>({.context = 4, .plan = {.heads_parallel = 3}})),
                    error);
  BOOST_CHECK_THROW((run<fp64, causal_attention>({.context = 4, .plan = {.ring_window = 3}})),
                    error);
}
