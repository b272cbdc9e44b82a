// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stand-in for NCCL and for a GPU's streams, on threads of the host. Streams run what is queued
// on them in order and beside each other; communicators move the bytes. It is as slow to answer as
// NCCL may be: a communicator is in progress until all of its ranks have come, the first call on it
// until all have made theirs, each later one for a look. What a program must not do is noted.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tenon/communicate/nccl/calls.hpp"
#include "tenon/communicate/transport.hpp"

namespace tenon_test {

using namespace tenon;

/// An order of work, on a thread of its own. `lag`: each piece of work takes so much longer.
class stand_in_stream {
 public:
  stand_in_stream(std::string name, std::chrono::microseconds lag)
      : name_(std::move(name)), lag_(lag), thread_([this] { work(); }) {}
  ~stand_in_stream() {
    push({});
    thread_.join();
  }
  const std::string& name() const noexcept { return name_; }
  /// An empty function ends it.
  void push(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    wake_.notify_all();
  }

 private:
  void work() {
    while (true) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      if (!job) return;
      if (lag_.count() > 0) std::this_thread::sleep_for(lag_);
      job();
    }
  }

  std::string name_;
  std::chrono::microseconds lag_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
};

struct stand_in_event {
  struct counts {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t recorded = 0;
    std::int64_t happened = 0;
  };
  std::string name;
  std::shared_ptr<counts> now = std::make_shared<counts>();  // streams may outlive the event
};

/// A GPU whose memory is the host's, and whose copies are in the order of its stream.
class stand_in_gpu final : public device {
 public:
  explicit stand_in_gpu(std::string identity, std::chrono::microseconds lag = {})
      : device(device_kind::emulated), identity_(std::move(identity)), stream_("compute", lag) {}
  const std::string& identity() const noexcept { return identity_; }
  stand_in_stream& stream() noexcept { return stream_; }

  std::string name() const override { return "stand-in"; }
  void* allocate(std::size_t bytes) override { return ::operator new(bytes); }
  void free(void* memory, std::size_t) noexcept override {
    stream_.push([memory] { ::operator delete(memory); });
  }
  void* allocate_pinned(std::size_t bytes) override { return ::operator new(bytes); }
  void free_pinned(void* memory, std::size_t) noexcept override { ::operator delete(memory); }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    std::vector<std::byte> kept(bytes);
    std::memcpy(kept.data(), from, bytes);
    stream_.push([to, kept = std::move(kept)] { std::memcpy(to, kept.data(), kept.size()); });
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    copy(to, from, bytes);
    synchronize();
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    stream_.push([=] { std::memcpy(to, from, bytes); });
  }
  void fill_with_zeros(void* memory, std::size_t bytes) override {
    stream_.push([=] { std::memset(memory, 0, bytes); });
  }
  void synchronize() override {
    std::atomic<bool> reached{false};
    stream_.push([&] {
      reached = true;
      reached.notify_all();
    });
    reached.wait(false);
  }

 private:
  std::string identity_;
  stand_in_stream stream_;
};

/// One call given to a communicator.
struct stand_in_call {
  collective kind = collective::barrier;  // a `reduce` is a reduce_scatter with a root
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t count = 0;
  element_kind element = element_kind::byte;
  reduction_kind by = reduction_kind::sum;
  int root = -1;  // or partner
};

/// The ranks of one communicator, as all of them see it.
class stand_in_clique {
 public:
  explicit stand_in_clique(int ranks) : next_(static_cast<std::size_t>(ranks)) {}

  int size() const noexcept { return static_cast<int>(next_.size()); }
  void come() { ++come_; }
  bool all_have_come() const { return come_ == size(); }
  void issue_first() { ++issued_; }
  bool all_have_issued() const { return issued_ == size(); }

  /// Does the calls of one group of one rank, on its stream's thread.
  void perform(int rank, const std::vector<stand_in_call>& calls);
  /// Whoever waits for another rank gives up.
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  struct meeting {
    std::vector<const stand_in_call*> calls;
    int come = 0;
    bool over = false;
  };
  struct message {
    const void* from = nullptr;
    std::int64_t bytes = 0;
    bool taken = false;
  };
  void meet(std::unique_lock<std::mutex>& lock, int rank, const stand_in_call& call);
  static void do_together(const std::vector<const stand_in_call*>& calls);

  std::atomic<int> come_{0};
  std::atomic<int> issued_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::vector<std::int64_t> next_;  // [ranks] number of the next meeting
  std::map<std::int64_t, meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> messages_;
};

struct stand_in_communicator {
  stand_in_communicator(std::shared_ptr<stand_in_clique> all, int r)
      : clique(std::move(all)), rank(r) {}

  std::shared_ptr<stand_in_clique> clique;
  int rank;
  bool began = false;         // all ranks have come
  bool issued_first = false;  // and it is in progress until all have
  bool connected = false;
  int looks_left = 0;          // for which the last call is in progress
  std::function<void()> held;  // the first call, until it is queued
  const stand_in_stream* holds = nullptr;
};

/// The calls of one rank. A copy is the same rank's.
class stand_in_nccl {
 public:
  using communicator = stand_in_communicator*;
  struct unique_id {
    std::int64_t number = 0;
    char rest[120] = {};  // as long as the real one
  };
  using stream = stand_in_stream*;
  using event = stand_in_event*;
  enum class result { done, in_progress, remote_error, internal_error };

  struct settings {
    bool moves = true;                 ///< false: calls are noted and nothing is done
    std::chrono::microseconds lag{0};  ///< of each piece of work on the communicators' streams
  };
  stand_in_nccl() : stand_in_nccl(settings{}) {}
  explicit stand_in_nccl(settings how) : rank_(std::make_shared<of_rank>()) { rank_->how = how; }

  /// What was called, in order: "all_reduce 20 fp32 sum on s1".
  std::vector<std::string>& notes() { return rank_->notes; }
  /// What must not be done and was.
  const std::vector<std::string>& misuses() const { return rank_->misuses; }
  /// From now on the call of this name answers so.
  void fail(const std::string& name, result with) { rank_->faults[name] = with; }
  /// From now on communicators answer so when asked how they are, after so many looks.
  void fail_later(result with, int looks) {
    rank_->later = with;
    rank_->looks_before = looks;
  }
  /// Addresses are noted as bytes from here.
  void count_addresses_from(const void* base) { rank_->base = base; }
  int open_groups() const { return rank_->depth; }
  int events_made() const { return rank_->events; }

  nccl_answer answer_of(result r) const;
  std::string text_of(result r) const;
  result make_unique_id(unique_id& id);
  result begin(communicator& made, int ranks, const unique_id& id, int rank);
  result state_of(communicator c);
  result finalize(communicator c);
  result destroy(communicator c);
  result abort(communicator c);
  result group_start();
  result group_end();
  result all_reduce(const void* from, void* to, std::size_t count, element_kind element,
                    reduction_kind by, communicator c, stream s);
  result reduce(const void* from, void* to, std::size_t count, element_kind element,
                reduction_kind by, int root, communicator c, stream s);
  result reduce_scatter(const void* from, void* to, std::size_t count, element_kind element,
                        reduction_kind by, communicator c, stream s);
  result broadcast(const void* from, void* to, std::size_t count, element_kind element, int root,
                   communicator c, stream s);
  result all_gather(const void* from, void* to, std::size_t count, element_kind element,
                    communicator c, stream s);
  result send(const void* from, std::size_t count, element_kind element, int to, communicator c,
              stream s);
  result receive(void* to, std::size_t count, element_kind element, int from, communicator c,
                 stream s);

  std::string identity_of(device& gpu) { return static_cast<stand_in_gpu&>(gpu).identity(); }
  stream compute_stream(device& gpu) { return &static_cast<stand_in_gpu&>(gpu).stream(); }
  stream make_stream(device& gpu);
  void free_stream(stream s);
  event make_event();
  void free_event(event e);
  void record(event e, stream s);
  void wait(stream s, event e);
  bool has_happened(event e);
  void copy(void* to, const void* from, std::size_t bytes, stream s);

 private:
  struct of_rank {
    settings how;
    std::vector<std::string> notes;
    std::vector<std::string> misuses;
    std::map<std::string, result> faults;
    result later = result::done;
    int looks_before = 0;
    const void* base = nullptr;
    int depth = 0;
    int streams = 0;
    int events = 0;
    std::vector<stand_in_call> group;
    communicator of_group = nullptr;
    stream stream_of_group = nullptr;
    std::set<communicator> in_use;
  };

  std::string address(const void* memory) const;
  bool in_progress(communicator c) const;
  result answered(const std::string& name, result otherwise = result::done);
  result enter(const char* name, const stand_in_call& call, std::string note, communicator c,
               stream s);
  result issue(communicator c, stream s, std::vector<stand_in_call> calls);

  std::shared_ptr<of_rank> rank_;
};

}  // namespace tenon_test
