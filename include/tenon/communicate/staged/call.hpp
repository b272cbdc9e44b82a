// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tenon/communicate/transport.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0::detail {

/// Pinned memory of the host on its way between ranks; the meter does not count it.
class pinned_block {
 public:
  pinned_block() = default;
  explicit pinned_block(std::int64_t bytes)
      : of_(device::of_this_rank()), bytes_(static_cast<std::size_t>(bytes)) {
    if (bytes > 0) data_ = static_cast<std::byte*>(of_->allocate_pinned(bytes_));
  }
  pinned_block(pinned_block&& other) noexcept
      : of_(other.of_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  pinned_block& operator=(pinned_block&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~pinned_block() {
    if (data_ != nullptr) of_->free_pinned(data_, bytes_);
  }
  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }

 private:
  device* of_ = nullptr;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// A call whose buffers lie on the rank's device, made by the host: what is sent is copied out to
/// pinned memory, what has come is copied in. A call in place stays one in place, on one block.
///
///   device   from  --copy out-->  |  host   from -> ranks -> to  |  --copy in-->   to   device
class staged_call final : public in_flight {
 public:
  explicit staged_call(const request& r)
      : call_(r),
        size_(bytes_of(r.element)),
        from_counts_(r.from_counts.begin(), r.from_counts.end()),
        to_counts_(r.to_counts.begin(), r.to_counts.end()) {}

  /// The request on host memory; once, before it is made or started.
  request on_host(int rank) {
    request host = call_;
    host.from_counts = from_counts_;
    host.to_counts = to_counts_;
    host.where = place::host;
    const auto me = static_cast<std::size_t>(rank);
    switch (call_.call) {
      case collective::all_reduce:
        make(first_, call_.count);
        out(first_, 0, call_.from, call_.count);
        host.from = host.to = first_.data();
        comes(first_, 0, call_.to, call_.count);
        break;
      case collective::all_gather: {
        const std::int64_t own = before(to_counts_, me);
        make(first_, sum_of(to_counts_));
        out(first_, own, call_.from, to_counts_[me]);
        host.from = at(std::as_const(first_).data(), own, call_.element);
        host.to = first_.data();
        comes(first_, 0, call_.to, sum_of(to_counts_));
        break;
      }
      case collective::reduce_scatter: {
        const std::int64_t own = before(from_counts_, me);
        make(first_, sum_of(from_counts_));
        out(first_, 0, call_.from, sum_of(from_counts_));
        host.from = first_.data();
        host.to = at(first_.data(), own, call_.element);
        comes(first_, own, call_.to, from_counts_[me]);
        break;
      }
      case collective::all_to_all: {
        make(first_, sum_of(from_counts_));
        make(second_, sum_of(to_counts_));
        out(first_, 0, call_.from, sum_of(from_counts_));
        host.from = first_.data();
        host.to = second_.data();
        // Its own piece may lie in place already: then it is not touched.
        const std::int64_t own = before(to_counts_, me);
        const std::int64_t behind = call_.own_in_place ? own + to_counts_[me] : own;
        comes(second_, 0, call_.to, own);
        rest_ = {behind, sum_of(to_counts_) - behind};
        break;
      }
      case collective::broadcast:
        make(first_, call_.count);
        if (rank == call_.peer) out(first_, 0, call_.to, call_.count);
        host.to = first_.data();
        if (rank != call_.peer) comes(first_, 0, call_.to, call_.count);
        break;
      case collective::send:
        make(first_, call_.count);
        out(first_, 0, call_.from, call_.count);
        host.from = first_.data();
        break;
      case collective::receive:
        make(first_, call_.count);
        host.to = first_.data();
        comes(first_, 0, call_.to, call_.count);
        break;
      case collective::barrier:
      case collective::split:
        break;
    }
    return host;
  }

  void started(pending inner) { inner_ = std::move(inner); }
  void wait() override {
    inner_.wait();
    finish();
  }
  bool done() override {
    if (finished_) return true;
    if (!inner_.done()) return false;
    wait();
    return true;
  }
  /// Copies in what has come; once.
  void finish() {
    if (finished_) return;
    finished_ = true;
    in(*arrives_in_, arrives_at_, arrives_to_, arrives_count_);
    in(second_, rest_.begin, at(call_.to, rest_.begin, call_.element), rest_.count);
  }

 private:
  struct part {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };

  static std::int64_t before(const std::vector<std::int64_t>& counts, std::size_t rank) {
    return sum_of(std::span(counts).first(rank));
  }
  void make(pinned_block& memory, std::int64_t elements) {
    memory = pinned_block(elements * size_);
  }
  void out(pinned_block& to, std::int64_t begin, const void* from, std::int64_t count) {
    if (count == 0) return;
    device::of_this_rank()->copy_out(to.data() + begin * size_, from,
                                     static_cast<std::size_t>(count * size_));
  }
  void comes(pinned_block& in, std::int64_t begin, void* to, std::int64_t count) {
    arrives_in_ = &in;
    arrives_at_ = begin;
    arrives_to_ = to;
    arrives_count_ = count;
  }
  void in(const pinned_block& from, std::int64_t begin, void* to, std::int64_t count) {
    if (count == 0) return;
    device::of_this_rank()->copy_in(to, from.data() + begin * size_,
                                    static_cast<std::size_t>(count * size_));
  }

  request call_;
  std::int64_t size_;
  std::vector<std::int64_t> from_counts_;  // the request's need not outlive its start
  std::vector<std::int64_t> to_counts_;
  pinned_block first_;
  pinned_block second_;
  pinned_block* arrives_in_ = &first_;
  std::int64_t arrives_at_ = 0;
  void* arrives_to_ = nullptr;
  std::int64_t arrives_count_ = 0;
  part rest_;
  bool finished_ = false;
  pending inner_;  // last: it ends before the memory it uses
};

}  // namespace tenon::inline v0::detail
