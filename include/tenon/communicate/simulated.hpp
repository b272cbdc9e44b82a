// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/communicate/simulated/group.hpp"

namespace tenon::inline v0 {

/// A rank that is a thread of this process. Sends wait for their receive. A call that does not fit
/// the other ranks' is found at once and named; when a rank throws or ends, the others' calls throw
/// instead of waiting. Every byte that crosses between ranks is counted where it is copied.
/// Thread-safety: each rank's transport is used by the rank's own thread.
class simulated_transport final : public transport {
 public:
  simulated_transport(std::shared_ptr<detail::simulated_group> group, int rank)
      : transport(rank, group->size()),
        group_(std::move(group)),
        timeout_(group_->run()->options.timeout) {}

  std::unique_ptr<transport> split(int color, int key) override {
    request r;
    r.call = collective::split;
    r.axis = "of a split";
    auto call = std::make_unique<detail::posted_call>(r);
    call->color = color;
    call->key = key;
    const auto all = group_->post(rank(), std::move(call));
    group_->wait(rank(), *all, timeout_);
    return std::move(all->parts[static_cast<std::size_t>(rank())]);
  }
  void run(const request& call) override { start(call).wait(); }
  pending start(const request& call) override {
    auto all = group_->post(rank(), std::make_unique<detail::posted_call>(call));
    return pending(std::make_unique<in_round>(group_, std::move(all), rank(), timeout_));
  }
  std::int64_t copied_bytes() const noexcept override { return group_->copied(rank()); }
  /// The shorter of the run's and the communicator's holds.
  void set_timeout(double seconds) override {
    const double limit = group_->run()->options.timeout;
    timeout_ = seconds <= 0 || (limit > 0 && limit < seconds) ? limit : seconds;
  }

 private:
  class in_round final : public in_flight {
   public:
    in_round(std::shared_ptr<detail::simulated_group> group, std::shared_ptr<detail::round> all,
             int rank, double timeout)
        : group_(std::move(group)), all_(std::move(all)), rank_(rank), timeout_(timeout) {}
    ~in_round() override {
      if (!waited_) group_->abandon(rank_, *all_);
    }
    void wait() override {
      group_->wait(rank_, *all_, timeout_);
      waited_ = true;
    }
    bool done() override { return group_->finished(*all_); }

   private:
    std::shared_ptr<detail::simulated_group> group_;
    std::shared_ptr<detail::round> all_;
    int rank_;
    double timeout_;
    bool waited_ = false;
  };

  std::shared_ptr<detail::simulated_group> group_;
  double timeout_;
};

namespace detail {

inline void simulated_group::split(round& all) {
  std::map<int, std::vector<std::size_t>> parts;  // colour -> ranks, by key
  for (std::size_t i = 0; i < all.calls.size(); ++i) parts[all.calls[i]->color].push_back(i);
  all.parts.resize(all.calls.size());
  for (auto& [color, ranks] : parts) {
    std::sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(all.calls[a]->key, a) < std::pair(all.calls[b]->key, b);
    });
    std::vector<int> members;
    for (const std::size_t rank : ranks) members.push_back(members_[rank]);
    const auto group = std::make_shared<simulated_group>(run_, std::move(members));
    int place = 0;
    for (const std::size_t rank : ranks) {
      all.parts[rank] = std::make_unique<simulated_transport>(group, place++);
    }
  }
}

/// The part of `simulate` that does not depend on the body's type.
inline void run_simulated(int ranks, const std::function<void(std::unique_ptr<transport>)>& body,
                          const simulated_options& options) {
  require(ranks >= 1, "simulate: ", ranks, " ranks were asked for; ask for one or more");
  require(options.count_limit >= 1, "simulate: the count limit is ", options.count_limit,
          "; use 1 or more");
  const auto run = std::make_shared<simulated_run>(ranks, options);
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const auto everyone = std::make_shared<simulated_group>(run, std::move(members));

  const auto ended = [&run](int rank, const std::exception_ptr& failure, const char* what) {
    const std::lock_guard lock(run->mutex);
    run->ended[static_cast<std::size_t>(rank)] = true;
    if (failure != nullptr && run->first_error == nullptr) {
      run->first_error = failure;
      run->failed_rank = rank;
      run->failure = what;
    }
    run->notify_all_groups();
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(std::make_unique<simulated_transport>(everyone, rank));
          ended(rank, nullptr, "");
        } catch (const std::exception& e) {
          ended(rank, std::current_exception(), e.what());
        } catch (...) {
          ended(rank, std::current_exception(), "an exception of an unknown kind");
        }
      });
    }
  }
  if (run->first_error != nullptr) std::rethrow_exception(run->first_error);
}

}  // namespace detail

/// Runs `body` on `ranks` threads, each of which is a rank and gets the transport of all of them
/// (`transport&` or `std::unique_ptr<transport>`). Returns when all have ended; then throws the
/// first error of any of them.
///
///   simulate(4, [](transport& world) { ... });
template <class Body>
void simulate(int ranks, Body&& body, const simulated_options& options = {}) {
  static_assert(
      std::invocable<Body&, transport&> || std::invocable<Body&, std::unique_ptr<transport>>,
      "simulate: the body cannot be called; give it one parameter, transport& or "
      "std::unique_ptr<transport>");
  if constexpr (std::invocable<Body&, transport&>) {
    detail::run_simulated(
        ranks, [&body](std::unique_ptr<transport> world) { body(*world); }, options);
  } else {
    detail::run_simulated(
        ranks, [&body](std::unique_ptr<transport> world) { body(std::move(world)); }, options);
  }
}

}  // namespace tenon::inline v0
