// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tenon/base/check.hpp"

/// The sentence with which `action` refuses, with its exit status before it: "2: --text is ...".
/// What it did instead, when it did not refuse.
template <class Action>
std::string refusal_of(Action action) {
  try {
    action();
  } catch (const tenon::error& refusal) {
    return tenon::joined(refusal.exit_status(), ": ", refusal.what());
  }
  return "it was accepted";
}
