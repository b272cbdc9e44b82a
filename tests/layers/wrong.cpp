// SPDX-License-Identifier: Apache-2.0
// Layers whose backward is wrong: the check must say so, and say where.
#include "checked.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/pointwise.hpp"
#include "tenon/layer/redistributed.hpp"

namespace {

// A slope that is one percent too large.
struct steep {
  template <class V>
  static V value(V v) {
    return v * v;
  }
  template <class V>
  static V slope(V v) {
    return V(2.02) * v;
  }
};

// From invariant to replicated; the sum of the gradients is forgotten.
struct without_the_sum {
  template <class In>
  struct bound : redistributed<axis::tensor, replicated>::template bound<In> {
    using right = typename redistributed<axis::tensor, replicated>::template bound<In>;
    using right::right;
    gradient_of_value<In> backward(gradient_of_value<typename right::output_type> gradient,
                                   typename right::saved_type) {
      return gradient.relabelled(gradient.where().template moved<axis::tensor, invariant>());
    }
  };
};

// From a sum to invariant; on all ranks but the first the result is another one.
struct uneven_results {
  template <class In>
  struct bound : redistributed<axis::tensor, invariant>::template bound<In> {
    using right = typename redistributed<axis::tensor, invariant>::template bound<In>;
    using right::right;
    auto forward(In x) {
      auto both = right::forward(std::move(x));
      if (both.first.where().grid().template coordinate<axis::tensor>() != 0) {
        both.first = both.first.clone();
        for (double& y : both.first.values()) y *= 1.5;
      }
      return both;
    }
  };
};

// A bias whose gradient is added up twice.
struct counted_twice {
  template <class In>
  struct bound : bias<dims<hidden>>::template bound<In> {
    using right = typename bias<dims<hidden>>::template bound<In>;
    using right::right;
    gradient_of_value<In> backward(gradient_of_value<In> gradient,
                                   typename right::saved_type saved) {
      return right::backward(right::backward(std::move(gradient), saved), saved);
    }
  };
};

template <class L, class In>
gradient_report checked(int data, int of_tensor) {
  return gradient_check<L, In>(both_axes({data, of_tensor}), uneven_sizes());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_wrong_slope_is_found) {
  const auto found = checked<pointwise<steep>, stream<replicated>>(1, 1);
  BOOST_TEST(found.largest() > 5e-3);
  BOOST_TEST(found.largest() < 2e-2);
  BOOST_TEST(found.text().find("input 0: 120 elements") == 0U);
}
BOOST_AUTO_TEST_CASE(a_forgotten_sum_is_found_where_there_is_one) {
  BOOST_TEST((checked<without_the_sum, stream<invariant>>(2, 1).largest() < 1e-6));
  BOOST_TEST((checked<without_the_sum, stream<invariant>>(1, 2).largest() > 0.1));
  BOOST_TEST((checked<without_the_sum, stream<invariant>>(2, 3).largest() > 0.1));
}
BOOST_AUTO_TEST_CASE(results_that_differ_between_ranks_are_found) {
  BOOST_TEST((checked<uneven_results, stream<partial>>(2, 1).largest() < 1e-6));
  BOOST_TEST((checked<uneven_results, stream<partial>>(1, 2).largest() > 0.1));
}
BOOST_AUTO_TEST_CASE(a_parameter_is_named) {
  const auto found = checked<counted_twice, stream<invariant>>(2, 2);
  BOOST_REQUIRE_EQUAL(found.all.size(), 2U);
  BOOST_TEST(found.all[0].difference < 1e-6);
  BOOST_TEST(found.all[1].name == "layer.bias");
  BOOST_TEST(found.all[1].difference > 0.4);
}
BOOST_AUTO_TEST_CASE(every_rank_gets_the_same_report) {
  using layer = linear<dims<hidden>, dims<ffn>, cuts_of_weights>;
  std::vector<std::string> texts(4);
  simulate(4, [&](std::unique_ptr<transport> world) {
    const int rank = world->rank();
    ranks<both_axes> group(std::move(world), both_axes({2, 2}));
    texts[static_cast<std::size_t>(rank)] =
        gradient_check<layer, stream<replicated>>(group, uneven_sizes()).text();
  });
  for (const std::string& text : texts) BOOST_TEST(text == texts[0]);
}
