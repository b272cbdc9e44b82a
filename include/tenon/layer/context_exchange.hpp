// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/communicate/ranks.hpp"
#include "tenon/kernel/flat.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/placement/context_traffic.hpp"
#include "tenon/tensor/copy_block.hpp"
#include "tenon/tensor/view.hpp"

namespace tenon::inline v0::detail {

// A matrix [batch * rows, columns] with the memory that it lies in.
template <class T>
struct held_matrix {
  std::shared_ptr<void> memory;
  matrix_view<T> view;

  static held_matrix fresh(std::int64_t rows, std::int64_t columns) {
    auto memory = std::make_shared<buffer<T>>(rows * columns);
    const auto view = view_of(memory->data(), rows, columns);
    return {std::move(memory), view};
  }
};

// Some rows of every sequence and some columns of them, in a matrix [batch * all rows, columns].
struct rows_and_columns {
  region rows;
  region columns;
};

// One of the matrices that an exchange sends together: what goes to each rank, and where what each
// sends comes to.
template <class E>
struct exchanged_matrix {
  E* from;
  std::array<std::int64_t, 2> from_extents;  // rows of a sequence, columns
  E* to;
  std::array<std::int64_t, 2> to_extents;
  std::vector<rows_and_columns> sent;
  std::vector<rows_and_columns> taken;
  bool add;  ///< what comes overlaps, and is added to the zeros that are there
};

/// The groups of ranks between which attention exchanges, and the exchanges.
/// Thread-safety: none; it belongs to one rank's thread.
template <class Mesh>
class context_groups {
 public:
  /// Collective over the stage when it is the first.
  context_groups(ranks<Mesh>& group, const context_extents& extents) {
    const int others = group.grid().template color<axis::context>();
    const context_extents& e = extents;
    const int line = others * e.heads_parallel + e.head_rank();
    heads_ =
        &group.further_group(std::string(axis::context_heads::name),
                             others * e.members() + e.member(), e.head_rank(), e.heads_parallel);
    inner_ = &group.further_group(std::string(axis::context_ring::name),
                                  line * e.windows() + e.outer(), e.inner(), e.window());
    outer_ = &group.further_group(std::string(axis::context_outer_ring::name),
                                  line * e.window() + e.inner(), e.outer(), e.windows());
    require(heads_->size() == e.heads_parallel && inner_->size() == e.window(),
            "attention: these ranks were grouped before, for ", heads_->size(),
            " that exchange heads and windows of ", inner_->size(),
            "; make the ranks anew for another way");
  }

  /// Sends all parts in one all-to-all of the ranks of a ring member. What overlaps is added up in
  /// the order of the ranks.
  template <class E>
  void exchange(const std::vector<exchanged_matrix<E>>& parts, std::int64_t batch,
                std::string_view name, call_site site) const {
    const auto count = static_cast<std::size_t>(heads_->size());
    std::vector<std::int64_t> send(count), receive(count);
    for (std::size_t r = 0; r < count; ++r) {
      for (const auto& part : parts) {
        send[r] += batch * part.sent[r].rows.size * part.sent[r].columns.size;
        receive[r] += batch * part.taken[r].rows.size * part.taken[r].columns.size;
      }
    }
    buffer<E> packed(sum_of(send));
    buffer<E> received(sum_of(receive));
    if (!shapes_only::active()) {
      std::int64_t at = 0;
      for_each_part(parts, batch, &exchanged_matrix<E>::sent,
                    [&](auto& part, auto& box, auto size) {
                      copy_block(packed.data() + at, block_in<3>{size, {}}, part.from,
                                 inside(batch, part.from_extents, box), size);
                      at += size[0] * size[1] * size[2];
                    });
    }
    heads_->call({.call = collective::all_to_all,
                  .element = kind_of<E>,
                  .from = packed.data(),
                  .to = received.data(),
                  .from_counts = send,
                  .to_counts = receive},
                 {.tensor = name}, site);
    if (shapes_only::active()) return;
    std::int64_t at = 0;
    for_each_part(parts, batch, &exchanged_matrix<E>::taken, [&](auto& part, auto& box, auto size) {
      const auto to = inside(batch, part.to_extents, box);
      if (part.add) {
        add_block(part.to, to, received.data() + at, block_in<3>{size, {}}, size);
      } else {
        copy_block(part.to, to, received.data() + at, block_in<3>{size, {}}, size);
      }
      at += size[0] * size[1] * size[2];
    });
  }

  /// Calls work(keys and values of a ring member, the member) for every member, this rank's own
  /// first, while the next ones are on their way. `own` is this rank's block.
  ///
  ///   window step t    the block came from the window before, and goes on to the next one
  ///   step s           within the window blocks go round, each rank passing on what it works on
  template <class E, class Work>
  void go_round(const context_extents& e, const buffer<E>& own, std::string_view name,
                Work&& work) const {
    buffer<E> first;  // of this window step; empty at first: the own one
    for (int t = 0; t < e.windows(); ++t) {
      const buffer<E>& begin = t == 0 ? own : first;
      buffer<E> next_first;
      moving_block outside;
      if (t + 1 < e.windows()) {
        next_first = buffer<E>(e.block(e.origin(t + 1, 0)));
        outside = pass_on(*outer_, begin, next_first, keys_tag, name);
      }
      buffer<E> here;  // after the first step
      for (int s = 0; s < e.window(); ++s) {
        const buffer<E>& now = s == 0 ? begin : here;
        buffer<E> next;
        moving_block inside_window;
        if (s + 1 < e.window()) {
          next = buffer<E>(e.block(e.origin(t, s + 1)));
          inside_window = pass_on(*inner_, now, next, keys_tag, name);
        }
        work(now, t, s);
        inside_window.wait();
        here = std::move(next);
      }
      outside.wait();
      first = std::move(next_first);
    }
  }

  /// The backward of `go_round`: work(block, t, s, gradient) writes the gradient of the block that
  /// this rank has a term of. The terms of a block are added up on its way, one step behind it: in
  /// each window from the rank after the one where it began, round to that one; those sums from
  /// window to window, home to its member. Returns the gradient of the own block.
  template <class E, class Work>
  buffer<wide<E>> go_round_backward(const context_extents& e, const buffer<E>& own,
                                    std::string_view name, Work&& work) const {
    using W = wide<E>;
    sum_on_its_way<W> windows(*outer_, e.windows());
    sum_on_its_way<W> window(*inner_, e.window());
    const auto size = [&](int t, int s) { return e.block(e.origin(t, s)); };
    go_round(e, own, name, [&](const buffer<E>& block, int t, int s) {
      buffer<W> term(block.size());
      work(block, t, s, term);
      window.add(std::move(term), s, size(t, s + 1), name);
      if (s + 1 < e.window()) return;
      windows.add(window.finish(), t, size(t + 1, 0), name);
    });
    return windows.finish();
  }

 private:
  static constexpr int keys_tag = 0;
  static constexpr int sums_tag = 1;

  struct moving_block {
    pending sent;
    pending received;
    void wait() {
      sent.wait();
      received.wait();
    }
  };

  // Sends a block to the next rank of a ring and receives one from the rank before.
  template <class T>
  static moving_block pass_on(communicator& ring, const buffer<T>& block, buffer<T>& next, int tag,
                              std::string_view name) {
    const int after = (ring.rank() + 1) % ring.size();
    const int before = (ring.rank() + ring.size() - 1) % ring.size();
    const call_options options{.tensor = name, .start_only = true, .tag = tag};
    moving_block moving;
    moving.received = ring.call({.call = collective::receive,
                                 .element = kind_of<T>,
                                 .to = next.data(),
                                 .count = next.size(),
                                 .peer = before},
                                options, call_site::here());
    moving.sent = ring.call({.call = collective::send,
                             .element = kind_of<T>,
                             .from = block.data(),
                             .count = block.size(),
                             .peer = after},
                            options, call_site::here());
    return moving;
  }

  // Sums of terms that travel round a ring, one step behind what they are the gradients of.
  template <class W>
  class sum_on_its_way {
   public:
    sum_on_its_way(communicator& ring, int size) : ring_(&ring), size_(size) {}

    // The term of step `step` (0: of what is at home here). `next` is the size of what comes for
    // the step after; behind the last step it is what comes home.
    void add(buffer<W> term, int step, std::int64_t next, std::string_view name) {
      if (step == 0) {
        home_ = std::move(term);
        return;
      }
      if (step > 1) {
        moving_.wait();
        add_up(term, coming_);
      }
      leaving_ = std::move(term);
      coming_ = buffer<W>(next);
      moving_ = pass_on(*ring_, leaving_, coming_, sums_tag, name);
    }
    // All terms of what is at home here.
    buffer<W> finish() {
      if (size_ > 1) {
        moving_.wait();
        add_up(home_, coming_);
        coming_ = {};
        leaving_ = {};
      }
      return std::move(home_);
    }

   private:
    static void add_up(buffer<W>& to, const buffer<W>& from) {
      kernel::add_scaled(to.span(), 1, from.span());
    }

    communicator* ring_;
    int size_;
    buffer<W> home_;
    buffer<W> leaving_;
    buffer<W> coming_;
    moving_block moving_;
  };

  template <class E, class F>
  static void for_each_part(const std::vector<exchanged_matrix<E>>& parts, std::int64_t batch,
                            std::vector<rows_and_columns> exchanged_matrix<E>::*boxes, F&& f) {
    for (std::size_t r = 0; r < (parts.front().*boxes).size(); ++r) {
      for (const auto& part : parts) {
        const rows_and_columns& box = (part.*boxes)[r];
        f(part, box, std::array<std::int64_t, 3>{batch, box.rows.size, box.columns.size});
      }
    }
  }
  static block_in<3> inside(std::int64_t batch, const std::array<std::int64_t, 2>& extents,
                            const rows_and_columns& box) {
    return {{batch, extents[0], extents[1]}, {0, box.rows.begin, box.columns.begin}};
  }

  communicator* heads_ = nullptr;
  communicator* inner_ = nullptr;
  communicator* outer_ = nullptr;
};

}  // namespace tenon::inline v0::detail
