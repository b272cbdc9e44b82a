// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/communicate/agreement.hpp"
#include "tenon/communicate/checked_message.hpp"
#include "tenon/communicate/ledger.hpp"
#include "tenon/communicate/ordered_reduction.hpp"
#include "tenon/communicate/staged/ordered_reduction.hpp"
#include "tenon/communicate/transport.hpp"
#include "tenon/memory/meter.hpp"

namespace tenon::inline v0 {

/// What a communicator is asked to do.
struct communicator_options {
  sum_order sums = sum_order::any;
  double timeout = 600;  ///< seconds that a call may wait for another rank; 0: for ever
  bool compare_every_call = agreement::asked_for_every_call();
};

/// The ranks along one axis of the mesh: a transport, and over it what every call needs: counting
/// in the ledger, the comparison of plans, the order of sums. The collectives are the functions of
/// `namespace communicate`, one header each. On one rank nothing is called; in a run for shapes
/// nothing is called and nothing counted.
///
/// After an error on it, a communicator is of no more use.
/// Thread-safety: none; it belongs to one rank's thread.
class communicator {
 public:
  communicator(std::unique_ptr<transport> group, std::string axis, ledger& book,
               communicator_options options = {})
      : group_(std::move(group)), axis_(std::move(axis)), book_(&book), options_(options) {
    group_->set_timeout(options_.timeout);
  }
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  int rank() const noexcept { return group_->rank(); }
  int size() const noexcept { return group_->size(); }
  const std::string& axis() const noexcept { return axis_; }
  ledger& book() noexcept { return *book_; }
  transport& group() noexcept { return *group_; }
  const communicator_options& options() const noexcept { return options_; }

  sum_order sums() const noexcept { return options_.sums; }
  void set_sums(sum_order sums) noexcept { options_.sums = sums; }

  /// Collective: ranks with an equal colour form a group, ordered by key, then rank.
  std::unique_ptr<communicator> split(int color, int key, std::string axis) {
    return std::make_unique<communicator>(group_->split(color, key), std::move(axis), *book_,
                                          options_);
  }

  /// Collective: throws disagreement on every rank when the ranks' calls so far differ.
  void compare() {
    if (size() == 1 || shapes_only::active()) return;
    calls_.compare(*group_, axis_, book_->step());
  }

  /// Makes or starts one call. For the functions of `namespace communicate`, which check buffers.
  pending call(request r, const call_options& options, call_site site) {
    r.axis = axis_;
    r.tensor = options.tensor;
    r.site = site;
    r.step = book_->step();
    r.tag = options.tag;
    r.global_count = options.global_count;
    if (options.where == place::host) r.where = place::host;
    const bool in_order = size() > 1 && detail::reduced_in_order(r, options_.sums);
    if (shapes_only::active()) {
      if (!in_order) return {};
      pending scratch(std::make_unique<detail::ordered_reduction_shapes>(*group_, r));
      return options.start_only ? std::move(scratch) : pending();
    }
    if (size() == 1) {
      detail::run_on_one_rank(r);
      return {};
    }
    const bool group_call = r.call != collective::send && r.call != collective::receive;
    if (group_call) {
      calls_.enter(r);
      if (options_.compare_every_call) calls_.compare(*group_, axis_, r.step);
    }
    ledger_row& row = row_of(r.call);
    const std::int64_t bytes = bytes_crossing(r, rank(), size());
    row.calls += 1;
    row.elements += bytes / bytes_of(r.element);
    row.bytes += bytes;
    const stopwatch timed(row);
    if (in_order && device::of_this_rank() != nullptr && r.where == place::rank) {
      return made_in_order<detail::staged_ordered_reduction>(r, options, row);
    }
    if (in_order) return made_in_order<detail::ordered_reduction>(r, options, row);
    if (options_.compare_every_call && !group_call) {
      pending message(std::make_unique<detail::checked_message>(*group_, r));
      if (options.start_only) {
        return pending(std::make_unique<timed_call>(std::move(message), row));
      }
      message.wait();
      return {};
    }
    if (options.start_only) {
      return pending(std::make_unique<timed_call>(group_->start(r), row));
    }
    group_->run(r);
    return {};
  }

 private:
  template <class Reduction>
  pending made_in_order(const request& r, const call_options& options, ledger_row& row) {
    auto reduction = std::make_unique<Reduction>(*group_, r);
    if (!options.start_only) {
      reduction->run();
      return {};
    }
    reduction->start();
    return pending(std::make_unique<timed_call>(pending(std::move(reduction)), row));
  }
  /// The row of the ledger, remembered: looking it up costs as much as a small message.
  ledger_row& row_of(collective call) {
    const std::size_t place = book_->phase_number() * collectives + static_cast<std::size_t>(call);
    if (place >= rows_.size()) rows_.resize(place + 1, nullptr);
    if (rows_[place] == nullptr) rows_[place] = &book_->row(axis_, name_of(call));
    return *rows_[place];
  }

  class stopwatch {
   public:
    explicit stopwatch(ledger_row& row) : row_(row), begin_(std::chrono::steady_clock::now()) {}
    stopwatch(const stopwatch&) = delete;
    stopwatch& operator=(const stopwatch&) = delete;
    ~stopwatch() {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
      row_.seconds += spent.count();
    }

   private:
    ledger_row& row_;
    std::chrono::steady_clock::time_point begin_;
  };

  class timed_call final : public in_flight {
   public:
    timed_call(pending call, ledger_row& row) : call_(std::move(call)), row_(row) {}
    void wait() override {
      const stopwatch timed(row_);
      call_.wait();
    }
    bool done() override { return call_.done(); }

   private:
    pending call_;
    ledger_row& row_;
  };

  std::unique_ptr<transport> group_;
  std::string axis_;
  ledger* book_;
  communicator_options options_;
  agreement calls_;
  std::vector<ledger_row*> rows_;  // [phases][collectives]
};

}  // namespace tenon::inline v0
