// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/communicate/call.hpp"
#include "tenon/memory/device.hpp"

namespace tenon::inline v0 {

/// What a call of NCCL, or a communicator when it is asked, says.
enum class nccl_answer : std::uint8_t {
  done,
  in_progress,   ///< ask the communicator again; until it is done nothing else may be called on it
  lost_partner,  ///< another process ended or failed
  failed,
};

namespace detail {

/// The types of a library's handles.
template <class Calls>
concept nccl_handles = requires {
  typename Calls::communicator;  // compares with a default-made one, which is none
  typename Calls::unique_id;     // bytes that one rank makes and all of a communicator are given
  typename Calls::stream;
  typename Calls::event;
  typename Calls::result;
};

}  // namespace detail

/// The calls of NCCL, and of a device's streams, that the transport makes: those of the real
/// library, or a stand-in that needs neither. Communicators do not block. Calls of NCCL return
/// what went wrong, calls on streams and events throw it. An object of it is a handle: copied.
template <class Calls>
concept nccl_library = std::copyable<Calls> && detail::nccl_handles<Calls> &&
    requires(Calls& calls, device& gpu, typename Calls::communicator communicator,
             typename Calls::unique_id id, typename Calls::result result,
             typename Calls::stream stream, typename Calls::event event, const void* from, void* to,
             std::size_t count, element_kind element, reduction_kind reduction, int rank,
             typename Calls::communicator& made) {
  { calls.answer_of(result) } -> std::same_as<nccl_answer>;
  { calls.text_of(result) } -> std::convertible_to<std::string>;
  { calls.make_unique_id(id) } -> std::same_as<typename Calls::result>;
  { calls.begin(made, rank, id, rank) } -> std::same_as<typename Calls::result>;
  { calls.state_of(communicator) } -> std::same_as<typename Calls::result>;
  { calls.finalize(communicator) } -> std::same_as<typename Calls::result>;
  { calls.destroy(communicator) } -> std::same_as<typename Calls::result>;
  { calls.abort(communicator) } -> std::same_as<typename Calls::result>;
  { calls.group_start() } -> std::same_as<typename Calls::result>;
  { calls.group_end() } -> std::same_as<typename Calls::result>;

  {
    calls.all_reduce(from, to, count, element, reduction, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.reduce(from, to, count, element, reduction, rank, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.reduce_scatter(from, to, count, element, reduction, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.broadcast(from, to, count, element, rank, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.all_gather(from, to, count, element, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.send(from, count, element, rank, communicator, stream)
    } -> std::same_as<typename Calls::result>;
  {
    calls.receive(to, count, element, rank, communicator, stream)
    } -> std::same_as<typename Calls::result>;

  // Which GPU it is, in words that are equal for no two of any machines.
  { calls.identity_of(gpu) } -> std::convertible_to<std::string>;
  { calls.compute_stream(gpu) } -> std::same_as<typename Calls::stream>;
  { calls.make_stream(gpu) } -> std::same_as<typename Calls::stream>;
  calls.free_stream(stream);
  { calls.make_event() } -> std::same_as<typename Calls::event>;
  calls.free_event(event);
  calls.record(event, stream);
  calls.wait(stream, event);  // the stream, not the host
  { calls.has_happened(event) } -> std::same_as<bool>;
  calls.copy(to, from, count, stream);
};

}  // namespace tenon::inline v0
