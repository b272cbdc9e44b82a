// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/communicate/agreement.hpp"
#include "tenon/communicate/transport.hpp"

namespace tenon::inline v0::detail {

/// A send or a receive that is checked against its partner (TENON_CHECK=calls): a note on what is
/// sent goes ahead of the message, and the receiver compares.
class checked_message final : public in_flight {
 public:
  checked_message(transport& group, const request& r) : group_(group), call_(r) {
    call_.from_counts = {};
    call_.to_counts = {};
    mine_.sequence = r.count;
    mine_.hash_after = static_cast<std::uint64_t>(r.element);
    mine_.step = r.step;
    mine_.set_text(described(r));
    request note = r;
    note.element = element_kind::byte;
    note.count = static_cast<std::int64_t>(sizeof(call_record));
    note.from = &mine_;
    note.to = &theirs_;
    note.tag = r.tag + first_note_tag;
    note.bookkeeping = true;
    note_ = group.start(note);
    message_ = group.start(r);
  }

  void wait() override {
    note_.wait();
    const bool same = mine_.sequence == theirs_.sequence && mine_.hash_after == theirs_.hash_after;
    if (call_.call == collective::receive && !same) {
      throw error(error_kind::disagreement,
                  disagreement_sentence(call_.axis, group_.size(), call_.step, group_.rank(),
                                        mine_.text, call_.peer, theirs_.text));
    }
    message_.wait();
  }
  bool done() override { return note_.done() && message_.done(); }

 private:
  static constexpr int first_note_tag = 16384;

  transport& group_;
  request call_;
  call_record mine_;
  call_record theirs_;
  pending note_;
  pending message_;
};

}  // namespace tenon::inline v0::detail
