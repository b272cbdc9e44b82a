// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tenon/base/host_device.hpp"
#include "tenon/placement/token_order.hpp"

namespace tenon::inline v0::kernel {

/// The place of a row of x [batch, sequence, ...]: its position, or, where documents are packed,
/// that in its document.
/// Thread-safety: a value; `document_begins` is the owner's matter.
struct row_places {
  position_runs runs{};   ///< of the rows of a sequence that are here
  std::int64_t rows = 1;  ///< of a sequence that are here
  /// [batch, length], in the rank's memory: the position at which the document of each position
  /// begins; null where there are no documents.
  const std::int32_t* document_begins = nullptr;
  std::int64_t length = 0;  ///< of a sequence

  TENON_BOTH std::int64_t operator()(std::int64_t row) const noexcept {
    const std::int64_t position = runs.at(row % rows);
    if (document_begins == nullptr) return position;
    return position - document_begins[row / rows * length + position];
  }
};

}  // namespace tenon::inline v0::kernel
