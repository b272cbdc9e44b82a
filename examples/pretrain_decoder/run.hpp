// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/train/trainer.hpp"

namespace pretrain_decoder {

/// The ranks of a run, whatever mesh they are laid out on.
class any_ranks {
 public:
  virtual ~any_ranks() = default;
  virtual tenon::communicator& everyone() = 0;
  virtual tenon::communicator& pipeline() = 0;
  /// The mesh of one stage: "data 2 x tensor 4".
  virtual std::string mesh_text() const = 0;

  int rank() { return everyone().rank(); }
  int size() { return everyone().size(); }
  int stage() { return pipeline().rank(); }
  int stages() { return pipeline().size(); }
  tenon::ledger& ledger() { return everyone().book(); }
};

/// The ranks on the mesh that a state of the stream asks for.
template <class StreamState>
class ranks_for final : public any_ranks {
  using placed = tenon::decoder_placements<StreamState>;

 public:
  ranks_for(std::unique_ptr<tenon::transport> world, const tenon::run_strategy& strategy,
            tenon::communicator_options options)
      : ranks_for(placed::mesh_of(strategy, world->rank()), std::move(world), strategy, options) {}

  tenon::communicator& everyone() override { return held.everyone(); }
  tenon::communicator& pipeline() override { return held.pipeline(); }
  std::string mesh_text() const override { return held.grid().text(); }

  tenon::ranks<typename placed::mesh_type> held;

 private:
  // A reference: the mesh must be found before anything is taken from `world`.
  ranks_for(typename placed::mesh_type mesh, std::unique_ptr<tenon::transport>&& world,
            const tenon::run_strategy& strategy, tenon::communicator_options options)
      : held(std::move(world), mesh, options, strategy.pipeline) {}
};

/// Collective. Lays the ranks out on the mesh of the strategy.
inline std::unique_ptr<any_ranks> make_ranks(std::unique_ptr<tenon::transport> world,
                                             const tenon::run_strategy& strategy,
                                             tenon::communicator_options options) {
  namespace stream = tenon::stream_state;
  if (strategy.tensor_grid > 1) {
    return std::make_unique<ranks_for<stream::grid>>(std::move(world), strategy, options);
  }
  if (strategy.split_sequence) {
    return std::make_unique<ranks_for<stream::split_sequence>>(std::move(world), strategy, options);
  }
  return std::make_unique<ranks_for<stream::whole>>(std::move(world), strategy, options);
}

/// One parameter, for the table at the start.
struct parameter_line {
  std::string name;
  std::string dims;
  std::string owner;
  std::string use;
  std::int64_t elements = 0;
};

/// A training run whose element and stream are chosen at run time: the one place where they become
/// types is `make_run`.
class any_run {
 public:
  virtual ~any_run() = default;
  virtual tenon::step_result step(const tenon::token_source& source) = 0;
  virtual tenon::traffic_prices predicted_traffic() const = 0;
  virtual std::int32_t next_token(
      std::span<const std::int32_t> tokens,
      const std::function<std::int32_t(std::span<const float>)>& choose) = 0;
  virtual std::vector<parameter_line> parameter_lines() = 0;
  virtual void set_overlap(bool overlap) = 0;
};

/// The run of one element and one stream; each is a unit of its own in units/.
template <tenon::element E, class StreamState>
std::unique_ptr<any_run> make_typed_run(ranks_for<StreamState>& group,
                                        const tenon::decoder_shape& shape,
                                        const tenon::trainer_settings& settings);

// Declared so, a unit compiles its own alone.
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp64>(
    ranks_for<tenon::stream_state::whole>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp64>(
    ranks_for<tenon::stream_state::split_sequence>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp64>(
    ranks_for<tenon::stream_state::grid>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp32>(
    ranks_for<tenon::stream_state::whole>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp32>(
    ranks_for<tenon::stream_state::split_sequence>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::fp32>(
    ranks_for<tenon::stream_state::grid>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::bf16>(
    ranks_for<tenon::stream_state::whole>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::bf16>(
    ranks_for<tenon::stream_state::split_sequence>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);
extern template std::unique_ptr<any_run> make_typed_run<tenon::bf16>(
    ranks_for<tenon::stream_state::grid>&, const tenon::decoder_shape&,
    const tenon::trainer_settings&);

namespace detail {

template <class StreamState>
std::unique_ptr<any_run> make_run_on(ranks_for<StreamState>& group, tenon::element_kind element,
                                     const tenon::decoder_shape& shape,
                                     const tenon::trainer_settings& settings) {
  switch (element) {
    case tenon::element_kind::fp64:
      return make_typed_run<tenon::fp64>(group, shape, settings);
    case tenon::element_kind::bf16:
      return make_typed_run<tenon::bf16>(group, shape, settings);
    default:
      return make_typed_run<tenon::fp32>(group, shape, settings);
  }
}

}  // namespace detail

/// The run of an element on ranks that `make_ranks` has laid out.
inline std::unique_ptr<any_run> make_run(tenon::element_kind element, any_ranks& group,
                                         const tenon::decoder_shape& shape,
                                         const tenon::trainer_settings& settings) {
  namespace stream = tenon::stream_state;
  if (auto* on_grid = dynamic_cast<ranks_for<stream::grid>*>(&group)) {
    return detail::make_run_on(*on_grid, element, shape, settings);
  }
  if (auto* split = dynamic_cast<ranks_for<stream::split_sequence>*>(&group)) {
    return detail::make_run_on(*split, element, shape, settings);
  }
  return detail::make_run_on(dynamic_cast<ranks_for<stream::whole>&>(group), element, shape,
                             settings);
}

}  // namespace pretrain_decoder
