// SPDX-License-Identifier: Apache-2.0
//
// A layer of one's own, of any placement, and the proof that its backward is right on four ranks:
// the logits' soft cap, y = limit * tanh(x / limit), and a low-rank adapter made of layers that are
// there, through a dim of one's own.
#include <cmath>
#include <cstdio>

#include "tenon/layer.hpp"

using namespace tenon;

struct low_rank {  // a dim is any struct with a name
  static constexpr std::string_view name = "low_rank";
};

template <int Limit>
struct soft_cap {
  template <class In>
  struct bound : without_parameters, without_transfers {
    static_assert(no_sum_to_be_done<typename In::placement_type>,
                  "soft_cap: a function that is not linear was given a sum that is still to be "
                  "done; reduce it first");
    using output_type = In;
    using saved_type = In;  // what backward needs: y

    explicit bound(const layer_context<typename In::mesh_type>&) {}
    std::pair<In, In> forward(In x) {
      In y(x.group(), x.where());
      for (std::int64_t i = 0; i < x.elements(); ++i)
        y.data()[i] = Limit * std::tanh(x.data()[i] / Limit);
      return {y, y};
    }
    gradient_of_value<In> backward(gradient_of_value<In> gradient, In y) {
      auto dx = gradient.clone();
      for (std::int64_t i = 0; i < y.elements(); ++i)
        dx.data()[i] *= 1 - y.data()[i] * y.data()[i] / (Limit * Limit);
      return dx;
    }
  };
};

// Beside the full product two thin ones; ffn is cut on tensor, low_rank is whole.
using cut_by_tensor = assignment<carry<axis::tensor, ffn>>;
using thin = chain<named<"thin_in", linear<dims<hidden>, dims<low_rank>>>,
                   named<"thin_out", linear<dims<low_rank>, dims<ffn>, cut_by_tensor>>>;
using adapted = sum<named<"full", linear<dims<hidden>, dims<ffn>, cut_by_tensor>>, thin>;
using capped = chain<adapted, soft_cap<3>, named<"down", row_parallel<ffn, hidden, axis::tensor>>>;

using grid = mesh<axis::data, axis::tensor>;
using tokens = tensor<fp64, dims<batch, sequence, hidden>,
                      placement<on<axis::data, sharded<batch>>, on<axis::tensor, replicated>>>;

int main() {
  dim_sizes sizes;
  sizes.set<batch>(3).set<sequence>(2).set<hidden>(4).set<ffn>(5).set<low_rank>(2);
  const gradient_report report = gradient_check<capped, tokens>(grid({2, 2}), sizes);
  for (const auto& one : report.all)
    std::printf("%-22s %3lld elements: %s\n", one.name.c_str(),
                static_cast<long long>(one.elements),
                one.difference < 1e-6 ? "backward is the slope" : "WRONG");
  return report.largest() < 1e-6 ? 0 : 1;
}

// Output:
//   input 0                 24 elements: backward is the slope
//   layer.0.full.weight     20 elements: backward is the slope
//   layer.1.thin_in.weight   8 elements: backward is the slope
//   layer.1.thin_out.weight  10 elements: backward is the slope
//   layer.down.weight       20 elements: backward is the slope
