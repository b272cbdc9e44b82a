// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/communicate/communicator.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/placement/partition.hpp"
#include "tenon/placement/placement.hpp"

namespace tenon::inline v0 {

/// What a parameter is for. Weight decay is for matrices alone.
enum class parameter_role : std::uint8_t { matrix, bias, gain };

/// The initial values: a constant, or normal values with mean 0.
struct initial_values {
  double constant = 0;
  double deviation = 0;

  static constexpr initial_values normal(double deviation) { return {0, deviation}; }
  static constexpr initial_values all(double value) { return {value, 0}; }
};

/// The one declaration of a parameter besides its dims and placements, which are its type. What the
/// gradient is summed over, its share of the norm, its decay, its random stream and its slice in a
/// checkpoint follow from it.
struct parameter_declaration {
  std::string name;
  parameter_role role = parameter_role::matrix;
  initial_values initial{};
};

namespace detail {

template <class P>
struct find_owner_placement;
template <class... Ons>
struct find_owner_placement<placement<Ons...>> {
  template <class S>
  using owned = std::conditional_t<is_sharded<S>, S, invariant>;
  using type = placement<on<typename Ons::axis, owned<typename Ons::held>>...>;
};

}  // namespace detail

/// The owner placement of a parameter whose use is `Use`: a cut stays a cut, and what all ranks
/// hold alike is invariant.
template <class Use>
using owner_placement = typename detail::find_owner_placement<Use>::type;

/// Whether the owner placement cuts parameters over the ranks that would hold them alike, and over
/// how many of the data axis; 0 stands for all.
struct shard_choice {
  bool cut = false;
  int data_extent = 0;
};

/// The communicators over which a gradient is to be summed: those between whose ranks its parameter
/// is cut (a reduce-scatter), and the others (an all-reduce). Null where there is one rank.
struct reduction_lines {
  communicator* shard = nullptr;
  communicator* rest = nullptr;
  friend bool operator==(const reduction_lines&, const reduction_lines&) = default;
};

/// A parameter as trainers, optimizers and checkpoints see it, whatever its dims and placements.
/// `Wide` is the element of master weights.
///
/// A rank's *piece* is what the mesh's axes leave to it of the owner placement. Of the piece, a
/// flattened run of elements, its *part*, is this rank's to step: all of it, or less where the data
/// ranks divide it among them (shards).
///
///   part --make the piece (all-gather)--> piece --make_use (spread)--> use --products--> gradient
///    ^                                                                                  of use |
///    '-- optimizer <-- gradient of part <--(reduce)-- gradient of piece <--gather_uses --------'
///
/// Thread-safety: none; it belongs to one rank's thread.
template <element Wide>
class any_parameter {
 public:
  virtual ~any_parameter() = default;

  virtual const parameter_declaration& declaration() const = 0;
  virtual std::int64_t global_elements() const = 0;
  virtual std::int64_t piece_elements() const = 0;
  /// Elements that this rank uses in its products; more than its piece where it is spread.
  virtual std::int64_t used_elements() const = 0;
  /// "vocabulary, hidden" and the placements, for tables and messages.
  virtual std::string dims_text() const = 0;
  virtual std::string owner_text() const = 0;
  virtual std::string use_text() const = 0;
  /// The global extents, and the regions of this rank's piece, dim by dim.
  virtual std::vector<std::int64_t> extents() const = 0;
  virtual std::vector<region> piece_regions() const = 0;
  /// This rank's part of the piece, row-major.
  region part() const noexcept { return part_; }
  std::int64_t owned_elements() const noexcept { return part_.size; }
  /// True on the ranks whose part enters sums over all ranks: what several ranks own alike is
  /// counted on the first of them alone.
  bool counted_here() const noexcept { return counted_; }

  virtual std::span<Wide> owned_values() = 0;
  virtual std::span<Wide> owned_gradient() = 0;
  /// Where the optimizer writes the rounded copy that products use; empty when they use the owned
  /// values, or when more is to be done than to round.
  virtual std::span<bf16> rounded_copy() = 0;

  /// Collective on its first call with a choice.
  virtual reduction_lines lines(shard_choice shards) = 0;
  virtual element_kind use_element() const = 0;

  /// From now on this rank owns a part of the piece, as the first of those that own it alike along
  /// `lines`, or not. The weights of the piece then come and go by `place_weights`. Before
  /// `initialise`.
  virtual void keep_part(region part, bool first) = 0;
  /// Writes the part's values, rounded to the element of products, to `to`; or takes them from such
  /// values.
  virtual void round_part(void* to) = 0;
  virtual void set_part(const void* from) = 0;
  /// Layers of two stages use it, so that it is divided by itself, alike on both.
  void mark_tied() noexcept { is_tied_ = true; }
  bool is_tied() const noexcept { return is_tied_; }
  /// What this rank holds is stepped, and counted, on another stage.
  void mark_copy() noexcept {
    is_copy_ = true;
    counted_ = false;
  }
  bool is_copy() const noexcept { return is_copy_; }
  /// Gives the weights of the piece their memory, `piece_elements` in the element of products at
  /// `values`, which `memory` keeps; no memory takes them away.
  virtual void place_weights(std::shared_ptr<void> memory, void* values) = 0;
  /// Makes the use of the piece, which is whole. A spread use is collective over its axis.
  virtual void make_use() = 0;
  /// Makes the use from the owned values, which are the piece: after they were set or stepped.
  virtual void publish() = 0;
  virtual void initialise(std::uint64_t seed) = 0;

  /// Gives the gradient of the piece its memory, from `begin` on, and with it that of the part;
  /// no memory takes it away.
  virtual void place_gradient(std::shared_ptr<buffer<Wide>> memory, std::int64_t begin) = 0;
  /// Gives the gradient of the part memory of its own.
  virtual void place_owned_gradient(std::shared_ptr<buffer<Wide>> memory, std::int64_t begin) = 0;
  /// The gradients that backward adds to, at zero.
  virtual void begin_step() = 0;
  /// Brings what backward has summed of a spread use to the gradient of the piece, which then is
  /// still partial on the axes of `lines`.
  virtual void gather_uses() = 0;

  /// Bytes that spread and its backward send for this rank, in the use's and the wide element.
  virtual std::int64_t spread_bytes_forward() const = 0;
  virtual std::int64_t spread_bytes_backward() const = 0;
  /// The axis over which the use is spread; empty when it is not.
  virtual std::string spread_axis() const = 0;

 protected:
  region part_{};
  bool counted_ = true;
  bool is_tied_ = false;
  bool is_copy_ = false;
};

}  // namespace tenon::inline v0
