// SPDX-License-Identifier: Apache-2.0
#include "nccl_stand_in.hpp"

#include <algorithm>
#include <utility>

#include "tenon/communicate/reduction.hpp"

namespace tenon_test {
namespace {

/// The communicators of this process, by id.
struct all_cliques {
  std::mutex mutex;
  std::int64_t ids = 0;
  std::map<std::int64_t, std::shared_ptr<stand_in_clique>> by_id;
};
all_cliques& cliques() {
  static all_cliques all;
  return all;
}

std::size_t bytes(const stand_in_call& call, std::size_t times = 1) {
  return static_cast<std::size_t>(call.count * bytes_of(call.element)) * times;
}
const std::byte* part(const void* memory, std::size_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}

}  // namespace

void stand_in_clique::perform(int rank, const std::vector<stand_in_call>& calls) {
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<message>> sent;
  for (const stand_in_call& call : calls) {
    if (call.kind != collective::send) continue;
    auto posted = std::make_shared<message>();
    posted->from = call.from;
    posted->bytes = call.count * bytes_of(call.element);
    messages_[{rank, call.root}].push_back(posted);
    sent.push_back(std::move(posted));
  }
  changed_.notify_all();
  for (const stand_in_call& call : calls) {
    if (call.kind == collective::send) continue;
    if (call.kind != collective::receive) {
      meet(lock, rank, call);
      continue;
    }
    auto& coming = messages_[{call.root, rank}];
    changed_.wait(lock, [&] { return !coming.empty() || aborted_; });
    if (aborted_) return;
    std::memcpy(call.to, coming.front()->from, bytes(call));
    coming.front()->taken = true;
    coming.pop_front();
    changed_.notify_all();
  }
  for (const auto& posted : sent) {
    changed_.wait(lock, [&] { return posted->taken || aborted_; });
  }
}

void stand_in_clique::meet(std::unique_lock<std::mutex>& lock, int rank,
                           const stand_in_call& call) {
  const std::int64_t number = next_[static_cast<std::size_t>(rank)]++;
  meeting& now = meetings_[number];
  now.calls.resize(next_.size());
  now.calls[static_cast<std::size_t>(rank)] = &call;
  if (++now.come == size()) {
    do_together(now.calls);
    now.over = true;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return now.over || aborted_; });
  if (--now.come == 0) meetings_.erase(number);
}

void stand_in_clique::do_together(const std::vector<const stand_in_call*>& calls) {
  const stand_in_call& first = *calls.front();
  const std::size_t piece = bytes(first), ranks = calls.size();
  const auto merged = [&](std::size_t offset) {
    std::vector<const void*> sources;
    for (const auto* call : calls) sources.push_back(part(call->from, offset));
    std::vector<std::byte> sum(piece);
    tenon::detail::merge_in_order(first.element, first.by, sources, first.count, sum.data());
    return sum;
  };
  switch (first.kind) {
    case collective::all_reduce: {
      const auto sum = merged(0);
      for (const auto* call : calls) std::memcpy(call->to, sum.data(), piece);
      return;
    }
    case collective::reduce_scatter: {
      if (first.root >= 0) {
        const auto sum = merged(0);
        std::memcpy(calls[static_cast<std::size_t>(first.root)]->to, sum.data(), piece);
        return;
      }
      std::vector<std::vector<std::byte>> sums;
      for (std::size_t i = 0; i < ranks; ++i) sums.push_back(merged(i * piece));
      for (std::size_t i = 0; i < ranks; ++i) std::memcpy(calls[i]->to, sums[i].data(), piece);
      return;
    }
    case collective::broadcast: {
      const void* from = calls[static_cast<std::size_t>(first.root)]->from;
      for (const auto* call : calls) std::memmove(call->to, from, piece);
      return;
    }
    default: {  // all_gather
      std::vector<std::byte> whole;
      for (const auto* call : calls) {
        whole.insert(whole.end(), part(call->from, 0), part(call->from, piece));
      }
      for (const auto* call : calls) std::memcpy(call->to, whole.data(), whole.size());
    }
  }
}

nccl_answer stand_in_nccl::answer_of(result r) const {
  switch (r) {
    case result::done:
      return nccl_answer::done;
    case result::in_progress:
      return nccl_answer::in_progress;
    case result::remote_error:
      return nccl_answer::lost_partner;
    case result::internal_error:
      break;
  }
  return nccl_answer::failed;
}

std::string stand_in_nccl::text_of(result r) const {
  return r == result::remote_error ? "remote error of the stand-in"
                                   : "internal error of the stand-in";
}

std::string stand_in_nccl::address(const void* memory) const {
  if (rank_->base == nullptr) return {};
  if (memory == nullptr) return " null";
  return joined(" +", static_cast<std::int64_t>(static_cast<const std::byte*>(memory) -
                                                static_cast<const std::byte*>(rank_->base)));
}

stand_in_nccl::result stand_in_nccl::answered(const std::string& name, result otherwise) {
  const auto fault = rank_->faults.find(name);
  return fault == rank_->faults.end() ? otherwise : fault->second;
}

bool stand_in_nccl::in_progress(communicator c) const {
  return !c->began || (c->issued_first && !c->connected) || c->looks_left > 0;
}

stand_in_nccl::result stand_in_nccl::make_unique_id(unique_id& id) {
  rank_->notes.emplace_back("make_unique_id");
  const std::lock_guard lock(cliques().mutex);
  id.number = ++cliques().ids;
  return answered("make_unique_id");
}

stand_in_nccl::result stand_in_nccl::begin(communicator& made, int ranks, const unique_id& id,
                                           int rank) {
  rank_->notes.push_back(joined("begin ", rank, " of ", ranks));
  if (const result r = answered("begin"); r != result::done) return r;
  const std::lock_guard lock(cliques().mutex);
  if (id.number == 0) rank_->misuses.emplace_back("begin without an id");
  auto& clique = cliques().by_id[id.number];
  if (clique == nullptr) clique = std::make_shared<stand_in_clique>(ranks);
  made = new stand_in_communicator(clique, rank);
  rank_->in_use.insert(made);
  clique->come();
  if (clique->all_have_come()) cliques().by_id.erase(id.number);
  if (!rank_->how.moves) made->began = made->connected = true;
  return result::in_progress;
}

stand_in_nccl::result stand_in_nccl::state_of(communicator c) {
  if (rank_->later != result::done && rank_->looks_before-- <= 0) return rank_->later;
  if (!c->began) {
    c->began = c->clique->all_have_come();
    return c->began ? result::done : result::in_progress;
  }
  if (c->issued_first && !c->connected) {
    if (!c->clique->all_have_issued()) return result::in_progress;
    c->connected = true;
    if (c->held) c->held();
    c->held = {};
    c->holds = nullptr;
  }
  return c->looks_left-- > 0 ? result::in_progress : (c->looks_left = 0, result::done);
}

stand_in_nccl::result stand_in_nccl::finalize(communicator c) {
  rank_->notes.emplace_back("finalize");
  if (in_progress(c)) rank_->misuses.emplace_back("finalize in progress");
  c->looks_left = 2;
  return answered("finalize", result::in_progress);
}

stand_in_nccl::result stand_in_nccl::destroy(communicator c) {
  rank_->notes.emplace_back("destroy");
  if (rank_->in_use.erase(c) == 0) rank_->misuses.emplace_back("destroy of none");
  delete c;
  return result::done;
}

stand_in_nccl::result stand_in_nccl::abort(communicator c) {
  rank_->notes.emplace_back("abort");
  if (rank_->in_use.erase(c) == 0) rank_->misuses.emplace_back("abort of none");
  c->clique->abort();
  delete c;
  return result::done;
}

stand_in_nccl::result stand_in_nccl::group_start() {
  rank_->notes.emplace_back("group_start");
  ++rank_->depth;
  return answered("group_start");
}

stand_in_nccl::result stand_in_nccl::group_end() {
  rank_->notes.emplace_back("group_end");
  if (--rank_->depth < 0) rank_->misuses.emplace_back("group_end without a beginning");
  const communicator c = std::exchange(rank_->of_group, nullptr);
  if (const result r = answered("group_end"); r != result::done) return r;
  if (c == nullptr) return result::done;
  return issue(c, rank_->stream_of_group, std::exchange(rank_->group, {}));
}

stand_in_nccl::result stand_in_nccl::enter(const char* name, const stand_in_call& call,
                                           std::string note, communicator c, stream s) {
  rank_->notes.push_back(joined(name, " ", call.count, " ", name_of(call.element), note,
                                address(call.from), address(call.to), " on ", s->name()));
  if (const result r = answered(name); r != result::done) return r;
  if (in_progress(c)) rank_->misuses.push_back(joined(name, " while in progress"));
  if (rank_->depth == 0) return issue(c, s, {call});
  rank_->group.push_back(call);
  rank_->of_group = c;
  rank_->stream_of_group = s;
  return result::done;
}

stand_in_nccl::result stand_in_nccl::issue(communicator c, stream s,
                                           std::vector<stand_in_call> calls) {
  if (!rank_->how.moves) return result::done;
  auto queue = [clique = c->clique, rank = c->rank, s, calls = std::move(calls)] {
    s->push([clique, rank, calls] { clique->perform(rank, calls); });
  };
  if (!c->issued_first) {
    c->issued_first = true;
    c->held = std::move(queue);
    c->holds = s;
    c->clique->issue_first();
  } else {
    queue();
    c->looks_left = 1;
  }
  return result::in_progress;
}

stand_in_nccl::result stand_in_nccl::all_reduce(const void* from, void* to, std::size_t count,
                                                element_kind element, reduction_kind by,
                                                communicator c, stream s) {
  return enter("all_reduce",
               {collective::all_reduce, from, to, static_cast<std::int64_t>(count), element, by},
               joined(" ", name_of(by)), c, s);
}
stand_in_nccl::result stand_in_nccl::reduce(const void* from, void* to, std::size_t count,
                                            element_kind element, reduction_kind by, int root,
                                            communicator c, stream s) {
  return enter(
      "reduce",
      {collective::reduce_scatter, from, to, static_cast<std::int64_t>(count), element, by, root},
      joined(" ", name_of(by), " to ", root), c, s);
}
stand_in_nccl::result stand_in_nccl::reduce_scatter(const void* from, void* to, std::size_t count,
                                                    element_kind element, reduction_kind by,
                                                    communicator c, stream s) {
  return enter(
      "reduce_scatter",
      {collective::reduce_scatter, from, to, static_cast<std::int64_t>(count), element, by},
      joined(" ", name_of(by)), c, s);
}
stand_in_nccl::result stand_in_nccl::broadcast(const void* from, void* to, std::size_t count,
                                               element_kind element, int root, communicator c,
                                               stream s) {
  return enter("broadcast",
               {collective::broadcast, from, to, static_cast<std::int64_t>(count), element,
                reduction_kind::sum, root},
               joined(" from ", root), c, s);
}
stand_in_nccl::result stand_in_nccl::all_gather(const void* from, void* to, std::size_t count,
                                                element_kind element, communicator c, stream s) {
  return enter("all_gather",
               {collective::all_gather, from, to, static_cast<std::int64_t>(count), element}, {}, c,
               s);
}
stand_in_nccl::result stand_in_nccl::send(const void* from, std::size_t count, element_kind element,
                                          int to, communicator c, stream s) {
  return enter("send",
               {collective::send, from, nullptr, static_cast<std::int64_t>(count), element,
                reduction_kind::sum, to},
               joined(" to ", to), c, s);
}
stand_in_nccl::result stand_in_nccl::receive(void* to, std::size_t count, element_kind element,
                                             int from, communicator c, stream s) {
  return enter("receive",
               {collective::receive, nullptr, to, static_cast<std::int64_t>(count), element,
                reduction_kind::sum, from},
               joined(" from ", from), c, s);
}

stand_in_nccl::stream stand_in_nccl::make_stream(device&) {
  return new stand_in_stream(joined("s", ++rank_->streams), rank_->how.lag);
}
void stand_in_nccl::free_stream(stream s) {
  rank_->notes.push_back(joined("free ", s->name()));
  delete s;
}
stand_in_nccl::event stand_in_nccl::make_event() {
  auto* made = new stand_in_event;
  made->name = joined("e", ++rank_->events);
  return made;
}
void stand_in_nccl::free_event(event e) { delete e; }
void stand_in_nccl::record(event e, stream s) {
  rank_->notes.push_back(joined("record ", e->name, " on ", s->name()));
  for (const communicator c : rank_->in_use) {
    if (c->holds == s) rank_->misuses.push_back(joined(e->name, " before the call is queued"));
  }
  std::int64_t number = 0;
  {
    const std::lock_guard lock(e->now->mutex);
    number = ++e->now->recorded;
  }
  s->push([now = e->now, number] {
    const std::lock_guard lock(now->mutex);
    now->happened = number;
    now->changed.notify_all();
  });
}
void stand_in_nccl::wait(stream s, event e) {
  rank_->notes.push_back(joined(s->name(), " waits for ", e->name));
  std::int64_t number = 0;
  {
    const std::lock_guard lock(e->now->mutex);
    number = e->now->recorded;
  }
  if (number == 0) rank_->misuses.push_back(joined("a wait for ", e->name, ", never recorded"));
  s->push([now = e->now, number] {
    std::unique_lock lock(now->mutex);
    now->changed.wait(lock, [&] { return now->happened >= number; });
  });
}
bool stand_in_nccl::has_happened(event e) {
  const std::lock_guard lock(e->now->mutex);
  return e->now->happened == e->now->recorded;
}
void stand_in_nccl::copy(void* to, const void* from, std::size_t size, stream s) {
  rank_->notes.push_back(joined("copy ", static_cast<std::int64_t>(size), " on ", s->name()));
  if (!rank_->how.moves) return;
  s->push([=] { std::memcpy(to, from, size); });
}

}  // namespace tenon_test
