// SPDX-License-Identifier: Apache-2.0
// Row programs on teams of many lanes against the host's kernels: rows of any length, that begin at
// 16 bytes or not, in every order of the lanes.
#include "both.hpp"
#include "tenon/kernel/rows/programs.hpp"

using namespace tenon;

namespace {

template <class T>
void enter() {
  kernel::enter_emulated_programs(kernel::row_programs<T>{});
  kernel::enter_emulated_programs(kernel::cut_norm_programs<T>{});
  kernel::enter_emulated_programs(kernel::expert_programs<T>{});
}

/// Operands of the host: they are the samples themselves.
struct on_host {
  template <class T>
  samples::matrix<T> operator()(const samples::matrix<T>& from) const {
    return from;
  }
  template <class T>
  std::vector<T> operator()(const std::vector<T>& from) const {
    return from;
  }
  template <class V>
  V back(const V& value) const {
    return value;
  }
};

/// Operands of the device, copied in.
struct on_device {
  std::int64_t gap;
  template <class T>
  both::matrix<T> operator()(const samples::matrix<T>& from) const {
    return both::matrix<T>(from, gap);
  }
  template <class T>
  both::numbers<T> operator()(const std::vector<T>& from) const {
    return both::numbers<T>(from);
  }
  template <class V>
  auto back(const V& value) const {
    return value.back();
  }
};

template <class V>
auto span_of(V& values) {
  if constexpr (requires { values.span(); }) {
    return values.span();
  } else {
    return std::span(values);
  }
}

void expect_near(double apart, double bar) { BOOST_TEST(apart <= bar); }

/// `run(place)` makes its operands by place(samples) and returns a tuple of what it wrote, each by
/// place.back(operand).
template <class F>
void compare(double bar, F&& run) {
  const auto right = run(on_host{});
  using kernel::lane_order;
  const std::pair<lane_order, std::int64_t> ways[] = {
      {lane_order::forward, 0}, {lane_order::backward, 3}, {lane_order::alternating, 0}};
  for (const auto& [order, gap] : ways) {
    const both::on_emulated here(order);
    const auto found = run(on_device{gap});
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (expect_near(both::apart(std::get<I>(found), std::get<I>(right)), bar), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(right)>>>{});
  }
}

template <class T>
samples::matrix<T> drawn(std::int64_t rows, std::int64_t columns, const char* name) {
  return samples::matrix<T>(rows, columns, name, 2);
}
template <class T>
std::vector<T> vector_of(std::int64_t n, const char* name) {
  return samples::numbers<T>(n, name, 2);
}

constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{3, 1}, {70, 24}, {5, 200}, {2, 1037}};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(norms, T, samples::all_elements) {
  enter<T>();
  using W = wide<T>;
  for (const auto& [rows, columns] : sizes) {
    for (const auto how : {kernel::output::overwrite, kernel::output::accumulate}) {
      compare(both::bar<T>, [&](auto place) {
        auto x = place(drawn<T>(rows, columns, "x"));
        auto y = place(drawn<T>(rows, columns, "old"));
        auto dx = place(drawn<T>(rows, columns, "old"));
        auto dy = place(drawn<T>(rows, columns, "slope"));
        auto gain = place(vector_of<T>(columns, "gain"));
        auto bias = place(vector_of<T>(columns, "bias"));
        auto mean = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto inverse = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto dgain = place(vector_of<W>(columns, "dgain"));
        auto dbias = place(vector_of<W>(columns, "dbias"));
        kernel::layer_norm<T>(y.view(), span_of(mean), span_of(inverse), x.view(), span_of(gain),
                              span_of(bias));
        kernel::layer_norm_backward<T>(dx.view(), span_of(dgain), span_of(dbias), dy.view(),
                                       x.view(), span_of(gain), span_of(mean), span_of(inverse),
                                       how);
        return std::tuple(place.back(y), place.back(mean), place.back(inverse), place.back(dx),
                          place.back(dgain), place.back(dbias));
      });
      compare(both::bar<T>, [&](auto place) {
        auto x = place(drawn<T>(rows, columns, "x"));
        auto y = place(drawn<T>(rows, columns, "old"));
        auto dx = place(drawn<T>(rows, columns, "old"));
        auto dy = place(drawn<T>(rows, columns, "slope"));
        auto gain = place(vector_of<T>(columns, "gain"));
        auto inverse = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto dgain = place(vector_of<W>(columns, "dgain"));
        kernel::rms_norm<T>(y.view(), span_of(inverse), x.view(), span_of(gain));
        kernel::rms_norm_backward<T>(dx.view(), span_of(dgain), dy.view(), x.view(), span_of(gain),
                                     span_of(inverse), how);
        return std::tuple(place.back(y), place.back(inverse), place.back(dx), place.back(dgain));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(norms_of_cut_rows, T, samples::all_elements) {
  enter<T>();
  using W = wide<T>;
  for (const auto& [rows, columns] : sizes) {
    for (const bool centred : {false, true}) {
      compare(both::bar<T>, [&](auto place) {
        auto x = place(drawn<T>(rows, columns, "x"));
        auto y = place(drawn<T>(rows, columns, "old"));
        auto dx = place(drawn<T>(rows, columns, "old"));
        auto dy = place(drawn<T>(rows, columns, "slope"));
        auto gain = place(vector_of<T>(columns, "gain"));
        auto bias = place(vector_of<T>(columns, "bias"));
        auto means = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto squares = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto along_x = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto along_one = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto dgain = place(vector_of<W>(columns, "dgain"));
        auto dbias = place(vector_of<W>(columns, "dbias"));
        const auto optional = [&](auto& values) {
          return centred ? span_of(values) : decltype(span_of(values)){};
        };
        kernel::row_sums<T>(span_of(means), x.view());
        kernel::divide_by_columns<W>(span_of(means), columns + 3);
        kernel::row_square_sums<T>(span_of(squares), x.view(), optional(means));
        kernel::cut_norm<T>(y.view(), span_of(squares), x.view(), optional(means), span_of(gain),
                            optional(bias), columns + 3);
        kernel::cut_norm_slopes<T>(span_of(along_x), optional(along_one), dy.view(), x.view(),
                                   span_of(gain), optional(means), span_of(squares));
        kernel::cut_norm_backward<T>(dx.view(), span_of(dgain), optional(dbias), dy.view(),
                                     x.view(), span_of(gain), optional(means), span_of(squares),
                                     span_of(along_x), optional(along_one), columns + 3);
        return std::tuple(place.back(y), place.back(means), place.back(squares),
                          place.back(along_x), place.back(along_one), place.back(dx),
                          place.back(dgain), place.back(dbias));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(softmax_and_its_backward, T, samples::all_elements) {
  enter<T>();
  for (const auto& [rows, columns] : sizes) {
    compare(both::bar<T>, [&](auto place) {
      auto x = place(drawn<T>(rows, columns, "x"));
      auto dy = place(drawn<T>(rows, columns, "slope"));
      kernel::softmax<T>(x.view(), x.view());
      kernel::softmax_backward<T>(dy.view(), dy.view(), x.view());
      return std::tuple(place.back(x), place.back(dy));
    });
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(cross_entropy, T, samples::all_elements) {
  enter<T>();
  using W = wide<T>;
  for (const auto& [rows, columns] : sizes) {
    std::vector<std::int32_t> words;
    for (std::int64_t i = 0; i < rows; ++i) {
      // Some are not counted, some are on other shards.
      words.push_back(i % 3 == 2 ? -1 : static_cast<std::int32_t>(7 + i % (columns + 2)));
    }
    for (const bool by_rows : {false, true}) {
      compare(both::bar<T>, [&](auto place) {
        auto logits = place(drawn<T>(rows, columns, "logits"));
        auto targets = place(words);
        auto maximum = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto sum = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto target_logit = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto loss = place(std::vector<W>(static_cast<std::size_t>(rows)));
        auto scale = place(vector_of<W>(rows, "scale"));
        const auto view = logits.view();
        const std::span<const std::int32_t> all = span_of(targets);
        kernel::cross_entropy_maximum(span_of(maximum), view);
        kernel::cross_entropy_sums(span_of(sum), span_of(target_logit), view, all, 7,
                                   std::span<const W>(span_of(maximum)));
        kernel::cross_entropy_loss(span_of(loss), all, span_of(maximum), span_of(sum),
                                   span_of(target_logit));
        if (by_rows) {
          kernel::cross_entropy_backward<T>(view, view, all, 7, span_of(maximum), span_of(sum),
                                            span_of(scale));
        } else {
          kernel::cross_entropy_backward<T>(view, view, all, 7, span_of(maximum), span_of(sum),
                                            static_cast<W>(0.25));
        }
        return std::tuple(place.back(maximum), place.back(sum), place.back(target_logit),
                          place.back(loss), place.back(logits));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(experts, T, samples::all_elements) {
  enter<T>();
  using W = wide<T>;
  const std::int64_t tokens = 11, k = 2, width = 37;
  for (const std::int64_t number : {2, 5, 70}) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < tokens * k; ++i) places.push_back((3 * i) % (tokens * k));
    compare(both::bar<T>, [&](auto place) {
      auto logits = place(drawn<W>(tokens, number, "logits"));
      auto chosen = place(samples::matrix<std::int32_t>(tokens, k));
      auto shares = place(samples::matrix<W>(tokens, k));
      auto dshares = place(samples::matrix<W>(tokens, k));
      auto dlogits = place(samples::matrix<W>(tokens, number));
      auto fractions = place(samples::matrix<double>(1, number));
      auto means = place(samples::matrix<double>(1, number));
      auto x = place(drawn<T>(tokens, width, "x"));
      auto y = place(drawn<T>(tokens, width, "old"));
      auto dx = place(drawn<T>(tokens, width, "old"));
      auto rows = place(drawn<T>(tokens * k, width, "old"));
      auto index = place(places);
      kernel::top_k<W>(chosen.view(), shares.view(), logits.view());
      kernel::softmax<W>(logits.view(), logits.view());
      kernel::balance_sums<W>(fractions.view(), means.view(), logits.view(), chosen.view(), 5);
      kernel::gather_rows<T>(rows.view(), x.view(), span_of(index), k);
      kernel::combine_rows<T>(y.view(), rows.view(), span_of(index), shares.view());
      kernel::combine_rows_backward<T>(dshares.view(), rows.view(), y.view(), span_of(index),
                                       shares.view());
      kernel::sum_of_slots<T>(dx.view(), rows.view(), span_of(index), k);
      kernel::top_k_backward<W>(dlogits.view(), dshares.view(), shares.view(), chosen.view());
      kernel::balance_backward<W>(dlogits.view(), logits.view(), fractions.view(), 5, 0.7);
      return std::tuple(place.back(chosen), place.back(shares), place.back(fractions),
                        place.back(means), place.back(y), place.back(dshares), place.back(dx),
                        place.back(dlogits));
    });
  }
}
