// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::inline v0 {

/// Where in the user's program a call stands. Used as a default argument, it is the caller's line:
/// `void f(call_site site = call_site::here());`
struct call_site {
  const char* file = "";
  int line = 0;

  static constexpr call_site here(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// What kind of thing went wrong; it decides the exit status of the programs.
enum class error_kind : std::uint8_t {
  failed,        ///< the run failed: exit status 1
  bad_request,   ///< the user asked for something that cannot be: exit status 2
  lost_rank,     ///< another rank ended or failed: exit status 3
  timed_out,     ///< the watchdog found a rank that stays away: exit status 4
  disagreement,  ///< two ranks called different collectives: exit status 1
};

/// The one exception of the library.
class error : public std::runtime_error {
 public:
  error(error_kind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}

  error_kind kind() const noexcept { return kind_; }

  /// The exit status that belongs to the kind, see the reference of exit statuses.
  int exit_status() const noexcept {
    switch (kind_) {
      case error_kind::bad_request:
        return 2;
      case error_kind::lost_rank:
        return 3;
      case error_kind::timed_out:
        return 4;
      case error_kind::failed:
      case error_kind::disagreement:
        return 1;
    }
    return 1;
  }

 private:
  error_kind kind_;
};

/// Throws a bad_request with the sentence built from the pieces, unless `holds`.
template <class... Pieces>
constexpr void require(bool holds, const Pieces&... pieces);

namespace detail {

inline std::string as_text(std::string_view piece) { return std::string(piece); }
inline std::string as_text(const char* piece) { return piece; }
inline std::string as_text(const std::string& piece) { return piece; }
template <class T>
requires std::is_arithmetic_v<T> std::string as_text(T piece) { return std::to_string(piece); }

}  // namespace detail

/// One text from pieces: texts and numbers.
template <class... Pieces>
std::string joined(const Pieces&... pieces) {
  std::string text;
  ((text += detail::as_text(pieces)), ...);
  return text;
}

template <class... Pieces>
constexpr void require(bool holds, const Pieces&... pieces) {
  if (!holds) throw error(error_kind::bad_request, joined(pieces...));
}

}  // namespace tenon::inline v0
