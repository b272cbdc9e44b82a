// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "tenon/base/random.hpp"
#include "tenon/communicate/simulated/round.hpp"

namespace tenon::inline v0 {

/// How simulated ranks behave.
struct simulated_options {
  double timeout = 60;  ///< seconds that a call waits for another rank; 0: for ever
  std::int64_t count_limit = INT64_MAX;  ///< elements that cross in one piece
  int delayed_rank = -1;  ///< this rank comes late to its calls, at random; -2: every rank
  std::chrono::microseconds longest_delay{0};
  std::uint64_t seed = 1;  ///< of the delays
};

namespace detail {

/// What all groups of one simulated run share.
struct simulated_run {
  simulated_run(int ranks, const simulated_options& chosen)
      : options(chosen), ended(static_cast<std::size_t>(ranks), false) {}

  simulated_options options;
  std::mutex mutex;         // guards everything below, the groups and their rounds
  std::vector<bool> ended;  // [ranks] the rank's function has returned or thrown
  int failed_rank = -1;
  std::string failure;
  std::exception_ptr first_error;
  std::vector<std::weak_ptr<std::condition_variable>> waiting;  // one a group

  void notify_all_groups() {
    for (const auto& group : waiting) {
      if (const auto changed = group.lock()) changed->notify_all();
    }
  }
};

/// A group of simulated ranks. Its members are threads; everything is guarded by the run's mutex,
/// except the work of a round, which one thread does while the others wait.
class simulated_group : public std::enable_shared_from_this<simulated_group> {
 public:
  simulated_group(std::shared_ptr<simulated_run> run, std::vector<int> members)
      : run_(std::move(run)),
        members_(std::move(members)),
        calls_made_(members_.size(), 0),
        copied_(members_.size()),
        changed_(std::make_shared<std::condition_variable>()) {
    // The caller holds the mutex, or is still alone.
    auto& waiting = run_->waiting;
    std::erase_if(waiting, [](const auto& group) { return group.expired(); });
    waiting.push_back(changed_);
  }

  int size() const noexcept { return static_cast<int>(members_.size()); }
  const std::shared_ptr<simulated_run>& run() const noexcept { return run_; }
  std::int64_t copied(int rank) const noexcept {
    return copied_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }

  /// Posts this rank's part and, as the last one, does the work.
  std::shared_ptr<round> post(int rank, std::unique_ptr<posted_call> call) {
    delay(rank);
    std::unique_lock lock(run_->mutex);
    const bool one_sided = call->r.call == collective::send || call->r.call == collective::receive;
    std::size_t slot = static_cast<std::size_t>(rank);
    std::shared_ptr<round> all = one_sided ? find_message(rank, *call, slot) : find_round(rank);
    throw_if_hopeless(*all, call->r);
    all->calls[slot] = std::move(call);
    all->posted += 1;
    if (!one_sided) check_against_first(*all, slot);
    if (all->posted == all->calls.size()) complete(lock, *all);
    return all;
  }

  /// Waits until the round is finished; throws what went wrong with it.
  void wait(int rank, round& all, double timeout) {
    std::unique_lock lock(run_->mutex);
    const auto begin = std::chrono::steady_clock::now();
    const auto longest = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(std::min(timeout, 1e8)));
    const request& mine = all.calls[slot_of(rank, all)]->r;
    while (!all.finished) {
      if (!all.working) throw_if_hopeless(all, mine);
      if (all.working || timeout <= 0) {
        changed_->wait(lock);
      } else if (changed_->wait_until(lock, begin + longest) == std::cv_status::timeout &&
                 !all.finished && !all.working && !all.failure) {
        fail(all, error(error_kind::timed_out,
                        joined("rank ", rank, " of ", described_group(mine.axis, size()),
                               " waited ", shown_seconds(timeout), " s at step ", mine.step, " in ",
                               described(mine), " for ", absent(all),
                               "; look at what that rank does, or allow more with --timeout")));
      }
    }
  }

  bool finished(const round& all) {
    const std::lock_guard lock(run_->mutex);
    return all.finished || all.failure.has_value();
  }

  /// The buffers of the rank are about to go while the round may still want them.
  void abandon(int rank, round& all) noexcept {
    std::unique_lock lock(run_->mutex);
    while (all.working) changed_->wait(lock);
    if (all.finished || all.failure) return;
    fail(all, error(error_kind::lost_rank, joined("rank ", rank, " gave up ",
                                                  described(all.calls[slot_of(rank, all)]->r))));
  }

 private:
  friend class simulated_transport_maker;
  using message_key = std::tuple<int, int, int>;  // from, to, tag

  static std::string shown_seconds(double seconds) {
    const auto thousandths = static_cast<std::int64_t>(seconds * 1000 + 0.5);
    std::string rest = std::to_string(1000 + thousandths % 1000).substr(1);
    while (!rest.empty() && rest.back() == '0') rest.pop_back();
    return joined(thousandths / 1000, rest.empty() ? "" : ".", rest);
  }

  static std::size_t slot_of(int rank, const round& all) {
    const auto place = std::find(all.ranks.begin(), all.ranks.end(), rank);
    return static_cast<std::size_t>(place - all.ranks.begin());
  }

  void delay(int rank) {
    const simulated_options& o = run_->options;
    const int world_rank = members_[static_cast<std::size_t>(rank)];
    if (o.delayed_rank != -2 && o.delayed_rank != world_rank) return;
    if (o.longest_delay.count() <= 0) return;
    const random_stream draws(o.seed, "delay", static_cast<std::uint64_t>(world_rank));
    std::int64_t number = 0;
    {
      const std::lock_guard lock(run_->mutex);
      number = delays_++;
    }
    const double share = static_cast<double>(draws.uniform(number));
    std::this_thread::sleep_for(o.longest_delay * share);
  }

  std::shared_ptr<round> find_round(int rank) {
    const std::int64_t number = calls_made_[static_cast<std::size_t>(rank)]++;
    auto& all = open_[number];
    if (all == nullptr) {
      std::vector<int> everyone(members_.size());
      for (int i = 0; i < size(); ++i) everyone[static_cast<std::size_t>(i)] = i;
      all = std::make_shared<round>(std::move(everyone));
    }
    std::shared_ptr<round> found = all;
    if (found->posted + 1 == found->calls.size()) open_.erase(number);
    return found;
  }

  // Sends and receives between two ranks with one tag pair up in order.
  std::shared_ptr<round> find_message(int rank, const posted_call& call, std::size_t& slot) {
    const bool sends = call.r.call == collective::send;
    slot = sends ? 0 : 1;
    const int from = sends ? rank : call.r.peer, to = sends ? call.r.peer : rank;
    auto& queue = messages_[message_key(from, to, call.r.tag)];
    if (!queue.empty() && queue.front()->calls[slot] == nullptr) {
      std::shared_ptr<round> first = std::move(queue.front());
      queue.pop_front();
      return first;
    }
    queue.push_back(std::make_shared<round>(std::vector<int>{from, to}));
    return queue.back();
  }

  void check_against_first(round& all, std::size_t slot) {
    for (std::size_t i = 0; i < all.calls.size(); ++i) {
      if (all.calls[i] == nullptr || i == slot) continue;
      const std::size_t low = std::min(i, slot), high = std::max(i, slot);
      const std::string sentence =
          mismatch(all.calls[low]->r, all.ranks[low], all.calls[high]->r, all.ranks[high], size());
      if (!sentence.empty()) fail(all, error(error_kind::disagreement, sentence));
      return;
    }
  }

  void complete(std::unique_lock<std::mutex>& lock, round& all) {
    if (all.failure) return;
    const std::string sentence = crosswise_mismatch(all, size());
    if (!sentence.empty()) return fail(all, error(error_kind::disagreement, sentence));
    if (all.calls.front()->r.call == collective::split) {
      split(all);
    } else {
      all.working = true;
      lock.unlock();
      std::optional<error> failure;
      try {
        round_worker(all, copied_, run_->options.count_limit).work();
      } catch (const std::exception& e) {
        failure = error(error_kind::failed, e.what());
      }
      lock.lock();
      all.working = false;
      all.failure = failure;
    }
    all.finished = !all.failure;
    changed_->notify_all();
  }

  void fail(round& all, error why) {
    if (!all.failure) all.failure = std::move(why);
    changed_->notify_all();
  }

  void throw_if_hopeless(round& all, const request& mine) {
    if (all.failure) throw *all.failure;
    if (all.finished) return;
    const auto lost = [&](const std::string& sentence) {
      fail(all, error(error_kind::lost_rank, sentence));
      throw error(error_kind::lost_rank, sentence);
    };
    if (run_->failed_rank >= 0) {
      lost(joined("rank ", run_->failed_rank, " ended with an error while others were in ",
                  described(mine), " on ", described_group(mine.axis, size()), " at step ",
                  mine.step, ": ", run_->failure));
    }
    for (std::size_t i = 0; i < all.calls.size(); ++i) {
      const auto rank = static_cast<std::size_t>(all.ranks[i]);
      if (all.calls[i] == nullptr && run_->ended[static_cast<std::size_t>(members_[rank])]) {
        lost(joined("rank ", rank, " of ", described_group(mine.axis, size()),
                    " has ended and never comes to ", described(mine), " at step ", mine.step,
                    "; all ranks of an axis make the same calls"));
      }
    }
  }

  std::string absent(const round& all) const {
    std::string text;
    for (std::size_t i = 0; i < all.calls.size(); ++i) {
      if (all.calls[i] == nullptr) text += joined(text.empty() ? "rank " : ", ", all.ranks[i]);
    }
    return text;
  }

  void split(round& all);

  std::shared_ptr<simulated_run> run_;
  std::vector<int> members_;              // [size] rank in the run
  std::vector<std::int64_t> calls_made_;  // [size]
  std::vector<std::atomic<std::int64_t>> copied_;
  std::shared_ptr<std::condition_variable> changed_;
  std::map<std::int64_t, std::shared_ptr<round>> open_;  // by number of the call
  std::map<message_key, std::deque<std::shared_ptr<round>>> messages_;
  std::int64_t delays_ = 0;
};

}  // namespace detail
}  // namespace tenon::inline v0
