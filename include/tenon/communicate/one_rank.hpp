// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tenon/communicate/transport.hpp"
#include "tenon/memory/meter.hpp"

namespace tenon::inline v0 {

/// The group of one rank: nothing crosses, every call copies its input to its result.
/// Thread-safety: see transport.
class one_rank final : public transport {
 public:
  one_rank() noexcept : transport(0, 1) {}
  std::unique_ptr<transport> split(int, int) override { return std::make_unique<one_rank>(); }
  void run(const request& call) override { detail::run_on_one_rank(call); }
  pending start(const request& call) override {
    run(call);
    return {};
  }
  std::int64_t copied_bytes() const noexcept override { return 0; }
};

/// A group whose other ranks are not there: one rank of it is looked at alone, in a run for shapes
/// (`shapes_only`) that predicts memory. Every real call is refused.
/// Thread-safety: see transport.
class absent_ranks final : public transport {
 public:
  absent_ranks(int rank, int size) : transport(rank, size) {
    require(size >= 1 && rank >= 0 && rank < size, "absent_ranks: rank ", rank, " of ", size,
            " was asked for; ask for a rank from 0 to one less than the size");
  }
  std::unique_ptr<transport> split(int, int) override {
    refuse("split");
    return nullptr;
  }
  void run(const request& call) override { refuse(name_of(call.call)); }
  pending start(const request& call) override {
    refuse(name_of(call.call));
    return {};
  }

 private:
  void refuse(std::string_view call) const {
    require(false, call, ": rank ", rank(), " of ", size(),
            " is looked at alone and the other ranks are absent; call it while shapes_only lives");
  }
};

}  // namespace tenon::inline v0
