// SPDX-License-Identifier: Apache-2.0
// Boxes of arrays on a device, and tensors: no host code touches what lies there.
#include <array>

#include "both.hpp"
#include "tenon/communicate/one_rank.hpp"
#include "tenon/kernel/programs.hpp"
#include "tenon/tensor/copy_block.hpp"
#include "tenon/tensor/print.hpp"
#include "tenon/tensor/random.hpp"

using namespace tenon;
using namespace both;

namespace {

using tenon::detail::block_in;

template <class T>
std::vector<T> counted(std::int64_t n, int from) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<int>((i * 7 + from) % 120);
    if constexpr (element<T>) {
      values.push_back(T(static_cast<wide<T>>(value)));
    } else {
      values.push_back(static_cast<T>(value));
    }
  }
  return values;
}

template <std::size_t N>
std::int64_t elements_of(const block_in<N>& block) {
  std::int64_t all = 1;
  for (const std::int64_t extent : block.extents) all *= extent;
  return all;
}

// Copies a box, and adds it where T can be added; `shift` elements stand before both arrays.
template <class T, std::size_t N>
void compare(const block_in<N>& to, const block_in<N>& from, const std::array<std::int64_t, N>& box,
             std::int64_t shift) {
  auto right = counted<T>(elements_of(to) + shift, 1);
  const auto values = counted<T>(elements_of(from) + shift, 50);
  const on_emulated device;
  numbers<T> d_right(right), d_values(values);
  const auto all = [&](T* t, const T* f) {
    tenon::detail::copy_block(t, to, f, from, box);
    if constexpr (element<T>) tenon::detail::add_block(t, to, f, from, box);
  };
  all(d_right.span().data() + shift, d_values.span().data() + shift);
  {
    const computes_on host(nullptr);
    all(right.data() + shift, values.data() + shift);
  }
  const auto got = d_right.back();
  bool same = true;
  for (std::size_t i = 0; i < right.size(); ++i) {
    same = same && static_cast<double>(got[i]) == static_cast<double>(right[i]);
  }
  BOOST_TEST(same);
}

using boxed = std::tuple<fp64, fp32, bf16, std::int32_t, char>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(boxes_are_moved_on_a_device, T, boxed) {
  kernel::enter_emulated_programs(kernel::plain_programs{});
  if constexpr (element<T>) kernel::enter_emulated_programs(kernel::box_programs<T>{});
  for (const std::int64_t shift : {0, 1}) {
    // All of both; runs that 16 bytes divide, and others; single elements; none.
    compare<T, 2>({{40, 64}, {}}, {{40, 64}, {}}, {40, 64}, shift);
    compare<T, 2>({{40, 64}, {3, 16}}, {{50, 96}, {1, 32}}, {30, 32}, shift);
    compare<T, 2>({{40, 64}, {3, 3}}, {{50, 97}, {1, 5}}, {30, 31}, shift);
    compare<T, 2>({{40, 64}, {0, 63}}, {{50, 97}, {1, 5}}, {40, 1}, shift);
    compare<T, 2>({{40, 64}, {4, 0}}, {{50, 97}, {1, 5}}, {1, 64}, shift);
    compare<T, 2>({{4, 6}, {1, 1}}, {{5, 9}, {1, 5}}, {1, 1}, shift);
    compare<T, 2>({{4, 6}, {1, 1}}, {{5, 9}, {1, 5}}, {0, 3}, shift);
    compare<T, 0>({}, {}, {}, shift);
    compare<T, 4>({{3, 4, 6, 8}, {0, 1, 2, 0}}, {{3, 9, 4, 8}, {0, 6, 0, 0}}, {3, 3, 4, 8}, shift);
    compare<T, 6>({{3, 2, 3, 2, 3, 4}, {1, 0, 1, 0, 1, 0}},
                  {{2, 3, 2, 3, 2, 5}, {0, 1, 0, 1, 0, 1}}, {2, 2, 2, 2, 2, 4}, shift);
  }
}

namespace {
using cube = dims<batch, sequence, hidden>;
using here = placement<on<axis::tensor, invariant>>;
}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(tensors_on_a_device, T, samples::all_elements) {
  kernel::enter_emulated_programs(kernel::element_programs<T>{});
  const auto all = [] {
    ranks<mesh<axis::tensor>> group(std::make_unique<one_rank>(), mesh<axis::tensor>{});
    tensor<T, cube, here> x(group, {2, 3, 5});
    const auto text = [&](const tensor<T, cube, here>& t) { return values_text(t); };
    std::string seen;
    fill_normal(x, random_stream(3, "x"), 0.5);
    seen += text(x);
    for_each_global_index(x, [](T& value, std::int64_t i) {
      if (i % 2 == 0) value = T(static_cast<wide<T>>(i));
    });
    seen += text(x);
    auto copy = x.clone();
    fill(x, 1.5);
    seen += text(x) + text(copy);
    copy.fill_with_zeros();
    return seen + text(copy);
  };
  const std::string right = all();
  const on_emulated device;
  BOOST_TEST(all() == right);
}
