// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/communicate/delayed/links.hpp"

namespace tenon::inline v0 {

/// The links that the ranks of one run share; make one before the ranks start and give it to each.
/// Thread-safety: it may be used by all ranks at once.
class delayed_links {
 public:
  explicit delayed_links(link_function links)
      : times_(std::make_shared<detail::link_times>(std::move(links))) {}

  const std::shared_ptr<detail::link_times>& times() const noexcept { return times_; }

 private:
  std::shared_ptr<detail::link_times> times_;
};

/// A transport on slow links: each call lasts what `detail::seconds_of` says from when all of its
/// ranks have come to it, whatever the ranks do meanwhile; the bytes themselves move as the
/// transport inside moves them. So what overlaps can be measured without a network: the numbers
/// come from `links` alone. For ranks that are threads of one process.
///
///   const delayed_links links([](int, int) { return link_cost{1e-3, 1e9}; });
///   simulate(4, [&](std::unique_ptr<transport> world) {
///     auto slow = std::make_unique<delayed_transport>(std::move(world), links);
///     ...
///   });
///
/// Thread-safety: none; it belongs to one rank's thread.
class delayed_transport final : public transport {
 public:
  delayed_transport(std::unique_ptr<transport> inner, const delayed_links& links)
      : delayed_transport(std::move(inner), links.times(), {}, {}) {
    members_.resize(static_cast<std::size_t>(size()));
    std::iota(members_.begin(), members_.end(), 0);
  }

  /// The ranks of the new group tell each other who they are.
  std::unique_ptr<transport> split(int color, int key) override {
    std::vector<int> path = path_;
    path.push_back(splits_++);
    path.push_back(color);
    auto part = inner_->split(color, key);
    std::vector<std::int32_t> members(static_cast<std::size_t>(part->size()));
    const std::int32_t me = members_[static_cast<std::size_t>(rank())];
    const std::vector<std::int64_t> counts(members.size(), 1);
    part->run({.call = collective::all_gather,
               .element = element_kind::int32,
               .from = &me,
               .to = members.data(),
               .to_counts = counts,
               .bookkeeping = true,
               .axis = "of a split"});
    return std::unique_ptr<transport>(
        new delayed_transport(std::move(part), times_, std::move(path), std::move(members)));
  }
  void run(const request& call) override { start(call).wait(); }
  pending start(const request& call) override {
    const bool sends = call.call == collective::send;
    const bool message = sends || call.call == collective::receive;
    const int from = !message ? -1 : sends ? rank() : call.peer;
    const int to = !message ? -1 : sends ? call.peer : rank();
    const auto number = message ? messages_[{from, to, call.tag}]++ : calls_++;
    const int me = members_[static_cast<std::size_t>(rank())];
    std::vector<detail::link_times::link> links;
    for (const int other : detail::links_of(call, rank(), size())) {
      links.emplace_back(me, members_[static_cast<std::size_t>(other)]);
    }
    auto passage = times_->come({path_, from, to, message ? call.tag : 0, number},
                                message ? 2 : members_.size(), links,
                                detail::seconds_of(call, rank(), members_, times_->cost()));
    return pending(std::make_unique<delayed_call>(inner_->start(call), times_, std::move(passage)));
  }
  std::int64_t copied_bytes() const noexcept override { return inner_->copied_bytes(); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }

 private:
  class delayed_call final : public in_flight {
   public:
    delayed_call(pending inner, std::shared_ptr<detail::link_times> times,
                 std::shared_ptr<detail::link_times::passage> passage)
        : inner_(std::move(inner)), times_(std::move(times)), passage_(std::move(passage)) {}
    // Once the call inside is done, all of its ranks have come.
    void wait() override {
      inner_.wait();
      std::this_thread::sleep_until(times_->end_of(*passage_));
    }
    bool done() override {
      return inner_.done() && detail::link_times::clock::now() >= times_->end_of(*passage_);
    }

   private:
    pending inner_;
    std::shared_ptr<detail::link_times> times_;
    std::shared_ptr<detail::link_times::passage> passage_;
  };

  delayed_transport(std::unique_ptr<transport> inner, std::shared_ptr<detail::link_times> times,
                    std::vector<int> path, std::vector<int> members)
      : transport(inner->rank(), inner->size()),
        inner_(std::move(inner)),
        times_(std::move(times)),
        path_(std::move(path)),
        members_(std::move(members)) {}

  std::unique_ptr<transport> inner_;
  std::shared_ptr<detail::link_times> times_;
  std::vector<int> path_;     // of splits that led to this group: number and colour of each
  std::vector<int> members_;  // [size] rank in the run
  int splits_ = 0;
  std::int64_t calls_ = 0;
  std::map<std::tuple<int, int, int>, std::int64_t> messages_;  // by from, to, tag
};

}  // namespace tenon::inline v0
