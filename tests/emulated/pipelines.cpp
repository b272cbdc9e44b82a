// SPDX-License-Identifier: Apache-2.0
// Pipelines in packs of 16 bytes against the host's: rows that packs fit and rows that they do not.
#include "both.hpp"
#include "tenon/kernel/programs.hpp"

using namespace tenon;
using namespace both;

namespace {

/// A functor of a user's, that also asks where it stands.
struct tilted {
  static constexpr std::string_view name = "tilted";
  template <class V>
  TENON_BOTH V operator()(V value, kernel::position where) const {
    return value + static_cast<V>(where.row) - static_cast<V>(where.column) / static_cast<V>(8);
  }
};

// The pipelines of layers, and one of a user's.
template <class T>
struct operands {
  using W = wide<T>;
  matrix_view<T> x, y, z;
  matrix_view<W> sums;
  std::span<const T> bias;

  void run_all(int which) const {
    using kernel::accumulate, kernel::add, kernel::multiply, kernel::per_column, kernel::per_row;
    using kernel::read, kernel::run, kernel::slope_of, kernel::swiglu, kernel::swiglu_backward;
    using kernel::value_of, kernel::write;
    const random_stream stream(7, "dropout", 3);
    const kernel::global_index where{5, {2}, 3, 10, 4, 5000};
    const auto by_row = std::span<const T>(bias).first(static_cast<std::size_t>(x.rows));
    switch (which) {
      case 0:
        return run(read{x} | kernel::dropout{0.4F, stream, where} | write{y});
      case 1:
        return run(read{x} | kernel::dropout{0, stream, where} | write{y});
      case 2:
        return run(read{x} | add{per_column{bias}} | write{x});
      case 3:
        return run(read{x} | accumulate{y});
      case 4:
        return run(read{sums} | add{read{sums}} | write{sums});
      case 5:
        return kernel::convert(sums, x);
      case 6:
        return kernel::convert(y, sums);
      case 7:
        return run(read{x} | value_of<function::gelu>{} | write{y});
      case 8:
        return run(read{x} | slope_of<function::gelu>{} | multiply{read{y}} | write{y});
      case 9:
        return run(read{x} | value_of<function::silu>{} | write{y});
      case 10:
        return run(read{x} | slope_of<function::silu>{} | multiply{read{y}} | write{z});
      case 11:
        return run(read{x} | swiglu{read{y}} | write{z});
      case 12:  // the gradients where the operands are
        return run(read{x} | swiglu_backward{read{y}, read{z}, write{y}, write{z}});
      default:
        return run(read{x} | multiply{per_row{by_row}} | tilted{} | write{sums} | accumulate{y});
    }
  }
  static constexpr int count = 14;
};

template <class T>
using of_user =
    type_list<kernel::programs::fused<kernel::read<T>, kernel::multiply<kernel::per_row<T>>, tilted,
                                      kernel::write<wide<T>>, kernel::accumulate<T>>>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(pipelines_on_a_device, T, samples::all_elements) {
  kernel::enter_emulated_programs(kernel::fused_programs<T>{});
  kernel::enter_emulated_programs(of_user<T>{});
  struct size {
    std::int64_t rows, columns, gap;
  };
  for (const size s : {size{1, 1, 0},
                       {6, 64, 0},
                       {6, 64, 8},
                       {6, 64, 1},
                       {3, 1031, 5},
                       {2, 4096 + 72, 0},
                       {1, 9000, 0}}) {
    for (int which = 0; which < operands<T>::count; ++which) {
      using W = wide<T>;
      samples::matrix<T> x(s.rows, s.columns, "x", 3), y(s.rows, s.columns, "y"),
          z(s.rows, s.columns, "z");
      samples::matrix<W> sums(s.rows, s.columns, "sums");
      const auto bias = samples::numbers<T>(s.columns + 6, "bias");
      const auto columns = static_cast<std::size_t>(which == 13 ? s.rows : s.columns);
      const on_emulated device(all_orders[which % 3]);
      matrix<T> dx(x, s.gap), dy(y, s.gap), dz(z, s.gap);
      matrix<W> dsums(sums, s.gap);
      numbers<T> dbias(bias);
      operands<T>{dx.view(), dy.view(), dz.view(), dsums.view(), dbias.span().first(columns)}
          .run_all(which);
      {
        const computes_on host(nullptr);
        operands<T>{x.view(), y.view(), z.view(), sums.view(), std::span(bias).first(columns)}
            .run_all(which);
      }
      BOOST_TEST_CONTEXT(which << ": " << s.rows << " x " << s.columns << " + " << s.gap) {
        // The same functions of the same numbers: the same bits.
        BOOST_TEST(dx.back().same_as(x));
        BOOST_TEST(dy.back().same_as(y));
        BOOST_TEST(dz.back().same_as(z));
        BOOST_TEST(dsums.back().same_as(sums));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(programs_are_named_by_their_stages) {
  using kernel::read, kernel::write;
  BOOST_TEST((kernel::programs::fused<read<bf16>, kernel::add<kernel::per_column<bf16>>, tilted,
                                      write<bf16>>::name == "read | add | tilted | write"));
  const on_emulated device;
  buffer<float> x(4);
  const auto m = view_of(x.data(), 1, 4);
  try {
    kernel::run(read{m} | kernel::scale{2} | write{m});
    BOOST_TEST(false);
  } catch (const error& e) {
    BOOST_TEST(std::string_view(e.what()).find("read | scale | write") != std::string_view::npos);
  }
}
