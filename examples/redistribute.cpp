// SPDX-License-Identifier: Apache-2.0
//
// A product over four ranks whose sum is due afterwards: mpirun -n 4 build/examples/redistribute
#include <concepts>
#include <cstdio>
#include <utility>

#include "tenon/communicate/program.hpp"
#include "tenon/kernel/product.hpp"
#include "tenon/placement.hpp"
#include "tenon/tensor/print.hpp"
#include "tenon/tensor/random.hpp"
#include "tenon/tensor/redistribute.hpp"

using namespace tenon;
using line = mesh<axis::tensor>;
template <class State>
using on_tensor = placement<on<axis::tensor, State>>;

// x [batch, ffn] and weight [ffn, hidden] are both cut along ffn, the dim that the product sums
// over: each rank gets a term of the sum.
using cut = on_tensor<sharded<ffn>>;
using summed =
    product_placement_t<dims<batch, ffn>, cut, dims<ffn, hidden>, cut, dims<batch, hidden>>;
static_assert(std::same_as<summed, on_tensor<partial>>);

// From a sum to pieces of the batch leads one move, and it says what it sends.
using step = move<axis::tensor, partial, sharded<batch>>;
static_assert(std::same_as<step, reduce_scatter<axis::tensor, batch>>);

int run(mpi_session& mpi) {
  ranks<line> all(mpi.world(), line({4}));
  tensor<fp32, dims<batch, ffn>, cut> x(all, {5, 6});  // 6 over 4 ranks are 2, 2, 1, 1
  tensor<fp32, dims<ffn, hidden>, cut> weight(all, {6, 2});
  for_each_global_index(x, [](fp32& v, std::int64_t i) { v = static_cast<fp32>(i / 6 + 1); });
  for_each_global_index(weight, [](fp32& v, std::int64_t i) { v = static_cast<fp32>(i % 2 + 1); });

  tensor<fp32, dims<batch, hidden>, summed> y(all, {5, 2});
  kernel::product(y.matrix(), std::as_const(x).matrix(), kernel::orientation::as_stored,
                  std::as_const(weight).matrix(), kernel::orientation::as_stored);
  const auto z = redistribute<axis::tensor, sharded<batch>>(y);

  if (all.rank() != 0) return 0;
  std::printf("%s\n%s", described(y).c_str(), values_text(y).c_str());
  std::printf("%s\n%s", described(z).c_str(), values_text(z).c_str());
  const auto bytes =
      bytes_moved<transfer<step, fp32, dims<batch, hidden>, summed>>({5, 2}, all.grid());
  for (const auto& [key, row] : all.ledger().rows()) {
    std::printf("%s on %s: predicted %lld bytes, counted %lld\n", key.call.c_str(),
                key.axis.c_str(), static_cast<long long>(bytes), static_cast<long long>(row.bytes));
  }
  return 0;
}

int main(int argc, char** argv) { return run_program(argc, argv, run); }

// Output:
//   fp32 [batch 5, hidden 2] tensor: partial; here 0..4 x 0..1
//   2 4
//   4 8
//   6 12
//   8 16
//   10 20
//   fp32 [batch 5, hidden 2] tensor: sharded<batch>; here 0..1 x 0..1
//   6 12
//   12 24
//   reduce_scatter on tensor: predicted 24 bytes, counted 24
