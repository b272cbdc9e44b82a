// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "tenon/communicate/nccl/bootstrap.hpp"
#include "tenon/communicate/nccl/library.hpp"

namespace tenon::inline v0 {

/// Ranks that are processes with a GPU each; what lies on the GPUs crosses by NCCL. Calls on host
/// memory, the library's own checks and barriers go over the host's transport, which it is made of.
///
///   nccl_transport world(mpi.world(), gpu);
///
/// Each group has a communicator of NCCL and a stream of its own. The host does not wait for the
/// device: `run` and a pending's `wait` return when the call is queued and the compute stream will
/// wait for it. NCCL has no tags and takes the calls of a communicator in order: so messages from
/// one rank to another with one tag have a communicator of their own, made at the first of them.
///
/// To queue the first calls, NCCL may wait for the other ranks. What was started meanwhile is
/// queued whenever the rank is in a call of any of its groups, and not while it waits for its GPU.
///
/// Errors: bad_request on all ranks when two are on one GPU; failed or lost_rank when NCCL reports
/// an error, timed_out when a call could not be queued in time: the communicator is aborted then.
/// Thread-safety: none; a transport is used by one thread, the rank's.
template <class Calls>
class basic_nccl_transport final : public transport {
  static_assert(nccl_library<Calls>,
                "basic_nccl_transport: the calls are no library of NCCL; give nccl_calls, or a "
                "type that models nccl_library");

 public:
  /// Collective. The GPU must outlive it.
  basic_nccl_transport(std::unique_ptr<transport> host, device& gpu, Calls calls = {},
                       double timeout = 600)
      : basic_nccl_transport(std::move(host),
                             std::make_shared<detail::nccl_engine<Calls>>(gpu, std::move(calls)),
                             timeout) {}

  std::unique_ptr<transport> split(int color, int key) override {
    return std::unique_ptr<transport>(
        new basic_nccl_transport(host_->split(color, key), engine_, timeout_));
  }

  void run(const request& call) override {
    if (over_host(call)) return run_over_host(call);
    if (size() == 1) return detail::run_on_one_rank(call);
    detail::require_for_nccl(call);
    if (detail::nothing_for_nccl(call)) return;
    auto [lane, made] = submit(call);
    lane->finish(*made, timeout_);
  }
  pending start(const request& call) override {
    if (over_host(call)) return host_->start(call);
    if (size() == 1) {
      detail::run_on_one_rank(call);
      return {};
    }
    detail::require_for_nccl(call);
    if (detail::nothing_for_nccl(call)) return {};
    auto [lane, made] = submit(call);
    return pending(std::make_unique<started>(*lane, std::move(made), timeout_));
  }

  void set_timeout(double seconds) override {
    timeout_ = std::max(seconds, 0.0);
    host_->set_timeout(seconds);
  }

  /// Waits, on the host, until the GPU has done all calls of this group so far. Meanwhile NCCL is
  /// asked for errors: a wait for the GPU itself would never end after one. `seconds` 0: for ever.
  void synchronize(double seconds) {
    if (everyone_ != nullptr) everyone_->synchronize(seconds);
    for (auto& [key, lane] : messages_) lane->synchronize(seconds);
  }

 private:
  using lane_type = detail::nccl_lane<Calls>;
  using operation = detail::nccl_operation<Calls>;

  class started final : public in_flight {
   public:
    started(lane_type& lane, std::shared_ptr<operation> call, double timeout)
        : lane_(lane), call_(std::move(call)), timeout_(timeout) {}
    void wait() override { lane_.finish(*call_, timeout_); }
    bool done() override { return lane_.done(*call_); }

   private:
    lane_type& lane_;
    std::shared_ptr<operation> call_;
    double timeout_;
  };

  basic_nccl_transport(std::unique_ptr<transport> host,
                       std::shared_ptr<detail::nccl_engine<Calls>> engine, double timeout)
      : transport(host->rank(), host->size()),
        host_(std::move(host)),
        engine_(std::move(engine)),
        timeout_(timeout) {
    if (size() == 1) return;
    detail::require_a_gpu_each(*host_, engine_->calls().identity_of(engine_->gpu()));
    everyone_ = std::make_unique<lane_type>(
        engine_, detail::nccl_member{rank(), size(), "of a split"}, rank(), size());
    detail::begin_on_all(*everyone_, engine_->calls(), *host_, timeout_);
  }

  static bool over_host(const request& call) noexcept {
    return call.bookkeeping || call.where != place::rank || call.call == collective::barrier;
  }
  /// While calls of NCCL wait to be queued, the host's must not keep the rank from helping them.
  void run_over_host(const request& call) {
    if (!engine_->busy()) return host_->run(call);
    pending made = host_->start(call);
    engine_->help_until([&] { return made.done() || !engine_->busy(); }, timeout_);
    made.wait();
  }

  std::pair<lane_type*, std::shared_ptr<operation>> submit(const request& call) {
    const bool message = call.call == collective::send || call.call == collective::receive;
    lane_type& lane = message ? lane_of(call) : *everyone_;
    auto made = std::make_shared<operation>(engine_, call);
    lane.submit(made);
    return {&lane, std::move(made)};
  }

  /// The sender makes the id of the lane's communicator and sends it with the messages' tag: on
  /// both ranks it is the first of them.
  lane_type& lane_of(const request& call) {
    const bool sends = call.call == collective::send;
    auto& lane = messages_[{sends ? rank() : call.peer, sends ? call.peer : rank(), call.tag}];
    if (lane != nullptr) return *lane;
    auto fresh = std::make_unique<lane_type>(
        engine_, detail::nccl_member{rank(), size(), std::string(call.axis)}, sends ? 0 : 1, 2);
    request id = detail::nccl_host_call(call.call, &fresh->id(), sizeof(fresh->id()));
    id.peer = call.peer;
    id.tag = call.tag;
    id.axis = call.axis;
    id.step = call.step;
    if (sends) {
      const auto made = engine_->calls().make_unique_id(fresh->id());
      if (engine_->calls().answer_of(made) != nccl_answer::done) {
        throw error(error_kind::failed,
                    joined("rank ", rank(), " of ", described_group(call.axis, size()), " at step ",
                           call.step, ": ", described(call),
                           " failed in NCCL: ", engine_->calls().text_of(made)));
      }
      fresh->keep(host_->start(id));
      fresh->begin(fresh->id());
    } else {
      fresh->begin_after(host_->start(id));
    }
    lane = std::move(fresh);
    return *lane;
  }

  std::unique_ptr<transport> host_;  // first: it ends after the lanes that use it
  std::shared_ptr<detail::nccl_engine<Calls>> engine_;
  double timeout_;
  std::unique_ptr<lane_type> everyone_;  // null on one rank
  // By sender, receiver and tag: all ranks end their lanes in this order, and none in a circle.
  std::map<std::tuple<int, int, int>, std::unique_ptr<lane_type>> messages_;
};

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
/// Ranks on GPUs, by NCCL itself.
using nccl_transport = basic_nccl_transport<nccl_calls>;
#endif

}  // namespace tenon::inline v0
