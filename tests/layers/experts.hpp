// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "tenon/layer/gradient_check.hpp"
#include "tenon/layer/mixture_of_experts.hpp"

using namespace tenon;

// Tokens cut on data and expert, whole on tensor; and with the sequence cut on context besides.
using expert_mesh = mesh<axis::data, axis::expert, axis::tensor>;
using four_axes = mesh<axis::data, axis::expert, axis::context, axis::tensor>;
template <element E, class Mesh>
struct entered_tokens;
template <element E>
struct entered_tokens<E, expert_mesh> {
  using type =
      tenon::tensor<E, dims<batch, sequence, hidden>,
                    placement<on<axis::data, sharded<batch>>, on<axis::expert, sharded<batch>>,
                              on<axis::tensor, replicated>>>;
};
template <element E>
struct entered_tokens<E, four_axes> {
  using type =
      tenon::tensor<E, dims<batch, sequence, hidden>,
                    placement<on<axis::data, sharded<batch>>, on<axis::expert, sharded<batch>>,
                              on<axis::context, sharded<sequence>>, on<axis::tensor, replicated>>>;
};
template <element E, class Mesh>
using entered = typename entered_tokens<E, Mesh>::type;

using expert_cuts = assignment<carry<axis::expert, experts>, carry<axis::tensor, ffn>>;
template <expert_form Form>
using experts_of = mixture_of_experts<Form, expert_cuts>;

// Sizes that two and three ranks do not divide.
inline dim_sizes expert_sizes(std::int64_t number, std::int64_t chosen) {
  dim_sizes sizes;
  sizes.set<batch>(5)
      .set<sequence>(3)
      .set<hidden>(6)
      .set<ffn>(5)
      .set<experts>(number)
      .set<statistics>(2);
  sizes.deviation = 0.5;  // the router's choices stand apart
  sizes.branch_deviation = 0.5;
  sizes.experts_per_token = chosen;
  return sizes;
}
