// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "tenon/base/check.hpp"
#include "tenon/base/random.hpp"
#include "tenon/placement/partition.hpp"

namespace tenon::inline v0 {

/// The order in which a run sees the sequences of its text. An epoch is a permutation of all of
/// them that is a function of (seed, epoch) alone; a step takes the next `batch`, and an epoch may
/// end inside a step. Nothing is stored: which sequence stands where is computed.
/// Thread-safety: a value without state.
class data_order {
 public:
  /// Throws bad_request unless there are sequences and the batch is positive.
  constexpr data_order(std::int64_t sequences, std::int64_t batch, std::uint64_t seed)
      : sequences_(sequences), batch_(batch), seed_(seed) {
    if (sequences < 1) {
      require(false, "the text has ", sequences, " sequences; a run needs at least 1");
    }
    if (batch < 1) require(false, "--batch ", batch, " is not a size; type --batch 1 or more");
  }

  constexpr std::int64_t sequences() const noexcept { return sequences_; }
  constexpr std::int64_t batch() const noexcept { return batch_; }

  /// The epoch that the sequence at `place` of the global batch of `step` belongs to. Steps and
  /// epochs count from 0.
  constexpr std::int64_t epoch_at(std::int64_t step, std::int64_t place) const noexcept {
    return (step * batch_ + place) / sequences_;
  }

  /// The number of the sequence at `place` (0 .. batch-1) of the global batch of `step`.
  constexpr std::int64_t sequence_at(std::int64_t step, std::int64_t place) const noexcept {
    const std::int64_t position = step * batch_ + place;
    const auto epoch = static_cast<std::uint64_t>(position / sequences_);
    const permutation shuffled(sequences_, random_stream(seed_, "data order", epoch));
    return shuffled(position % sequences_);
  }

 private:
  std::int64_t sequences_;
  std::int64_t batch_;
  std::uint64_t seed_;
};

/// How the places of a global batch are divided over the ranks that share it, and each rank's share
/// over its microbatches. Shares are balanced: 8 over 3 ranks are 3, 3, 2. Several axes cut it one
/// after the other, the first the whole and the next each piece: ranks are numbered with the last
/// fastest. A rank's places are a run of neighbours, and so are a microbatch's: `begin` is
/// the place of its first sequence in the global batch. All ranks count the same microbatches; one
/// that is short of sequences has smaller ones at its end, or empty ones.
///
///   global batch    0 1 2 | 3 4 5 | 6 7         3 ranks, microbatch 2
///   microbatch 0    0 1     3 4     6 7
///   microbatch 1        2       5               of rank 2: none
///
/// Thread-safety: a value without state.
class batch_division {
 public:
  /// Throws bad_request unless 1 <= microbatch <= batch and there are ranks.
  constexpr batch_division(std::int64_t batch, std::int64_t microbatch, int outer, int inner = 1,
                           int innermost = 1)
      : batch_(batch), microbatch_(microbatch), extents_{outer, inner, innermost} {
    if (batch < 1) require(false, "--batch ", batch, " is not a size; type --batch 1 or more");
    if (microbatch < 1 || microbatch > batch) {
      require(false, "--microbatch ", microbatch, " does not fit --batch ", batch,
              "; it is between 1 and ", batch, "; type --microbatch ", microbatch < 1 ? 1 : batch);
    }
    const int fewest = std::min({outer, inner, innermost});
    if (fewest < 1) require(false, "a batch is shared by ", fewest, " ranks; by at least 1");
  }

  constexpr std::int64_t batch() const noexcept { return batch_; }
  constexpr std::int64_t microbatch() const noexcept { return microbatch_; }
  constexpr int ranks() const noexcept { return extents_[0] * extents_[1] * extents_[2]; }

  /// ceil(ceil(batch / ranks) / microbatch), the same on every rank.
  constexpr std::int64_t microbatches() const noexcept {
    const std::int64_t most = share_of(0).size;
    return most / microbatch_ + (most % microbatch_ != 0 ? 1 : 0);
  }

  /// The most sequences that a microbatch of any rank has.
  constexpr std::int64_t most_sequences() const noexcept {
    return std::min(microbatch_, share_of(0).size);
  }

  /// The places of the global batch that belong to a rank.
  constexpr region share_of(int rank) const noexcept {
    region share{0, batch_};
    int inside = ranks();
    for (const int extent : extents_) {
      inside /= extent;
      const region piece = balanced_region(share.size, extent, rank / inside % extent);
      share = {share.begin + piece.begin, piece.size};
    }
    return share;
  }

  /// The places of one microbatch of a rank; of size 0 when the rank has no more sequences.
  constexpr region microbatch_of(int rank, std::int64_t index) const noexcept {
    const region share = share_of(rank);
    const std::int64_t done = std::min(index * microbatch_, share.size);
    return {share.begin + done, std::min(microbatch_, share.size - done)};
  }

 private:
  std::int64_t batch_;
  std::int64_t microbatch_;
  std::array<int, 3> extents_;
};

/// The sequences of a text as batches of tokens. Sequence n is the `sequence` + 1 tokens from
/// n x `sequence` on: the inputs, and one later the targets. It refers to the text and does not
/// keep it.
/// Thread-safety: const members may be called at once.
class batches {
 public:
  /// Throws bad_request when the text is shorter than one sequence, or has a byte that the
  /// vocabulary has no word for.
  batches(std::span<const std::uint8_t> text, std::int64_t sequence, std::int64_t batch,
          std::uint64_t seed, std::int64_t vocabulary = 256)
      : text_(text), sequence_(sequence), order_(sequences_in(text, sequence), batch, seed) {
    if (vocabulary < 256) {
      const std::uint8_t largest = *std::max_element(text.begin(), text.end());
      require(largest < vocabulary, "--text holds a byte ", int{largest},
              " and the vocabulary has ", vocabulary,
              " words; every byte is a word; use a vocabulary of ", largest + 1, " or more");
    }
  }

  const data_order& order() const noexcept { return order_; }
  std::int64_t sequence() const noexcept { return sequence_; }
  /// The tokens that are predicted in a step, by all ranks.
  std::int64_t tokens_in_step() const noexcept { return order_.batch() * sequence_; }

  /// Writes the tokens of the sequences at `places` of the global batch of `step`, the part
  /// `positions` of each. An empty region writes nothing.
  ///   inputs  [places.size, positions.size]   token at the position
  ///   targets [places.size, positions.size]   token after it
  /// Throws bad_request when a region or a buffer does not fit.
  void fill(std::int64_t step, region places, region positions, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const {
    require(places.begin >= 0 && places.size >= 0 && places.end() <= order_.batch(),
            "batches: places ", places.begin, " to ", places.end(), " are not in a batch of ",
            order_.batch());
    require(positions.begin >= 0 && positions.size >= 0 && positions.end() <= sequence_,
            "batches: positions ", positions.begin, " to ", positions.end(),
            " are not in a sequence of ", sequence_);
    const auto tokens = static_cast<std::size_t>(places.size * positions.size);
    require(inputs.size() == tokens && targets.size() == tokens, "batches: ", tokens,
            " tokens were asked for, and the buffers hold ", inputs.size(), " inputs and ",
            targets.size(), " targets");
    const auto width = static_cast<std::size_t>(positions.size);
    for (std::int64_t i = 0; i < places.size; ++i) {
      const std::int64_t number = order_.sequence_at(step, places.begin + i);
      const auto from = text_.begin() + (number * sequence_ + positions.begin);
      const auto to = static_cast<std::ptrdiff_t>(i * positions.size);
      std::copy_n(from, width, inputs.begin() + to);
      std::copy_n(from + 1, width, targets.begin() + to);
    }
  }

  /// The same for whole sequences.
  void fill(std::int64_t step, region places, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const {
    fill(step, places, region{0, sequence_}, inputs, targets);
  }

 private:
  static std::int64_t sequences_in(std::span<const std::uint8_t> text, std::int64_t sequence) {
    const auto tokens = static_cast<std::int64_t>(text.size());
    require(sequence >= 1, "--sequence ", sequence, " is not a size; type --sequence 1 or more");
    require(tokens >= 2, "--text holds ", tokens,
            " bytes, and predicting takes at least 2; type --text with a longer text");
    require(tokens > sequence, "--text holds ", tokens, " bytes, and --sequence ", sequence,
            " needs one more than its length; type --sequence ", tokens - 1,
            " or less, or --text with a longer text");
    return (tokens - 1) / sequence;
  }

  std::span<const std::uint8_t> text_;
  std::int64_t sequence_;
  data_order order_;
};

}  // namespace tenon::inline v0
