// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tenon/base/log.hpp"
#include "tenon/communicate/nccl/engine.hpp"

namespace tenon::inline v0::detail {

/// Whose lane it is, for messages.
struct nccl_member {
  int rank = 0;
  int size = 1;
  std::string axis;
};

/// One communicator of NCCL, the stream it owns, and the calls on it, in order. NCCL may not be
/// called while a communicator is in progress, and to queue the first calls it may wait for the
/// other ranks: so a call that was started is issued when the one before it is queued, by whoever
/// looks next.
///
///   compute stream   ... work | before ............................ | waits for after | work
///   lane's stream               waits for before | call | after
///
/// Thread-safety: none; it belongs to one rank's thread.
template <class Calls>
class nccl_lane final : public nccl_progress {
 public:
  using operation = nccl_operation<Calls>;
  using result = typename Calls::result;

  /// `rank` of `ranks` in the communicator, which `begin` makes.
  nccl_lane(std::shared_ptr<nccl_engine<Calls>> engine, nccl_member who, int rank, int ranks)
      : engine_(std::move(engine)),
        who_(std::move(who)),
        rank_(rank),
        ranks_(ranks),
        stream_(engine_->calls().make_stream(engine_->gpu())) {
    engine_->enter(*this);
  }
  nccl_lane(const nccl_lane&) = delete;
  nccl_lane& operator=(const nccl_lane&) = delete;
  ~nccl_lane() override {
    engine_->leave(*this);
    close();
    engine_->calls().free_stream(stream_);
  }

  /// Begins to make the communicator, with the id that rank 0 of it made.
  void begin(const typename Calls::unique_id& id) {
    begun_ = true;
    const result made = engine_->calls().begin(communicator_, ranks_, id, rank_);
    if (is_error(made)) fail(made, nullptr);
    in_progress_ = true;
  }
  /// Begins when the id has come; the memory of the id is the lane's.
  typename Calls::unique_id& id() noexcept { return id_; }
  void begin_after(pending id_comes) {
    id_moves_ = std::move(id_comes);
    awaits_id_ = true;
  }
  /// Keeps the message with the id until it has left.
  void keep(pending id_goes) { id_moves_ = std::move(id_goes); }

  bool ready() const noexcept { return begun_ && !in_progress_; }
  bool busy() const noexcept override {
    return failure_.empty() && (!calls_.empty() || (begun_ && in_progress_));
  }

  void submit(std::shared_ptr<operation> call) {
    require_alive();
    calls_.push_back(std::move(call));
    progress();
  }

  void progress() override {
    if (!failure_.empty()) return;
    if (id_moves_.done()) id_moves_.wait();
    if (awaits_id_) {
      if (!id_moves_.done()) return;
      awaits_id_ = false;
      begin(id_);
    }
    if (!begun_) return;
    while (true) {
      if (in_progress_) {
        const result state = engine_->calls().state_of(communicator_);
        if (engine_->calls().answer_of(state) == nccl_answer::in_progress) return;
        if (is_error(state)) fail(state, calls_.empty() ? nullptr : calls_.front().get());
        in_progress_ = false;
      }
      if (calls_.empty()) return;
      operation& front = *calls_.front();
      if (front.now == operation::state::issued) {
        engine_->calls().record(front.after, stream_);
        front.now = operation::state::queued;
        last_ = std::move(calls_.front());
        calls_.pop_front();
        continue;
      }
      engine_->calls().wait(stream_, front.before);
      const result issued = nccl_issue<Calls>(engine_->calls(), communicator_, stream_, rank_,
                                              ranks_)(front.call, front.aside());
      front.now = operation::state::issued;
      if (is_error(issued)) fail(issued, &front);
      in_progress_ = engine_->calls().answer_of(issued) == nccl_answer::in_progress;
    }
  }

  /// Waits until the call is queued, then lets the compute stream wait for it: not the host.
  void finish(operation& call, double seconds) {
    require_alive();
    if (!engine_->help_until([&] { return call.now == operation::state::queued; }, seconds)) {
      time_out(call, seconds);
    }
    look_for_errors(&call);
    engine_->calls().wait(engine_->compute_stream(), call.after);
    call.free_aside();
  }

  /// True once the device has done it.
  bool done(operation& call) {
    require_alive();
    progress();
    if (call.now != operation::state::queued) return false;
    look_for_errors(&call);
    return engine_->calls().has_happened(call.after);
  }

  /// Waits, on the host, until the device has done all calls so far.
  void synchronize(double seconds) {
    require_alive();
    const auto all_done = [&] {
      if (!calls_.empty() || !ready()) return false;
      look_for_errors(last_.get());
      return last_ == nullptr || engine_->calls().has_happened(last_->after);
    };
    if (calls_.empty() && last_ == nullptr) return;
    if (engine_->help_until(all_done, seconds)) return;
    time_out(calls_.empty() ? *last_ : *calls_.front(), seconds);
  }

  /// Waits until the communicator is made.
  void wait_until_ready(double seconds) {
    if (engine_->help_until([&] { return ready(); }, seconds)) return;
    request making;
    making.axis = who_.axis;
    give_up(error_kind::timed_out, joined(where(making), "no communicator of NCCL was made in ",
                                          static_cast<std::int64_t>(seconds + 0.5),
                                          " s; another rank stays away: look at what the others "
                                          "print, or allow more with --timeout"));
  }

 private:
  bool is_error(result r) {
    const nccl_answer answer = engine_->calls().answer_of(r);
    return answer != nccl_answer::done && answer != nccl_answer::in_progress;
  }

  /// Errors of what runs on the device come to light here.
  void look_for_errors(const operation* call) {
    if (in_progress_) return;
    const result state = engine_->calls().state_of(communicator_);
    if (is_error(state)) fail(state, call);
  }

  void require_alive() const {
    if (failure_.empty()) return;
    throw error(error_kind::failed,
                joined("a communicator of NCCL was given up after an error: ", failure_));
  }

  std::string where(const request& r) const {
    return joined("rank ", who_.rank, " of ",
                  described_group(r.axis.empty() ? std::string_view(who_.axis) : r.axis, who_.size),
                  " at step ", r.step, ": ");
  }
  [[noreturn]] void fail(result why, const operation* call) {
    const bool lost = engine_->calls().answer_of(why) == nccl_answer::lost_partner;
    const request making;
    const request& r = call == nullptr ? making : call->call;
    give_up(lost ? error_kind::lost_rank : error_kind::failed,
            joined(where(r), call == nullptr ? std::string("making a communicator") : described(r),
                   " failed in NCCL: ", engine_->calls().text_of(why),
                   "; look at what the other ranks print, NCCL_DEBUG=WARN tells more"));
  }
  [[noreturn]] void time_out(const operation& call, double seconds) {
    give_up(error_kind::timed_out,
            joined("rank ", who_.rank, " of ", described_group(call.call.axis, who_.size),
                   " has waited ", static_cast<std::int64_t>(seconds + 0.5), " s at step ",
                   call.call.step, " in ", described(call.call),
                   ": another rank of this axis stays away; look at what the others print, or "
                   "allow more with --timeout"));
  }
  [[noreturn]] void give_up(error_kind kind, const std::string& sentence) {
    failure_ = sentence;
    abort();
    throw error(kind, sentence);
  }

  void abort() noexcept {
    if (communicator_ == typename Calls::communicator{}) return;
    engine_->calls().abort(std::exchange(communicator_, typename Calls::communicator{}));
  }

  /// In good order when all is well; what runs is stopped when it is not.
  void close() noexcept {
    if (communicator_ == typename Calls::communicator{}) return;
    if (std::uncaught_exceptions() > errors_ || !failure_.empty() || !calls_.empty() ||
        in_progress_) {
      return abort();
    }
    Calls& calls = engine_->calls();
    result state = calls.finalize(communicator_);
    const auto begin = std::chrono::steady_clock::now();
    while (calls.answer_of(state) == nccl_answer::in_progress &&
           std::chrono::steady_clock::now() - begin < patience) {
      std::this_thread::yield();
      state = calls.state_of(communicator_);
    }
    if (calls.answer_of(state) != nccl_answer::done) return abort();
    calls.destroy(std::exchange(communicator_, typename Calls::communicator{}));
  }

  static constexpr std::chrono::seconds patience{10};  // for ranks that end a little later

  std::shared_ptr<nccl_engine<Calls>> engine_;
  nccl_member who_;
  int rank_;
  int ranks_;
  typename Calls::stream stream_;
  typename Calls::communicator communicator_{};
  typename Calls::unique_id id_{};
  pending id_moves_;
  bool awaits_id_ = false;
  bool begun_ = false;
  bool in_progress_ = false;
  std::string failure_;
  std::deque<std::shared_ptr<operation>> calls_;  // not queued yet
  std::shared_ptr<operation> last_;               // that was queued
  int errors_ = std::uncaught_exceptions();
};

}  // namespace tenon::inline v0::detail
