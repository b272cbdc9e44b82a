// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/check.hpp"

namespace tenon::inline v0 {

/// Where a cell stands in its column.
enum class column_side : std::uint8_t { left, right };

/// A heading of a table and the side on which its column is flush.
struct table_column {
  std::string heading;
  column_side side = column_side::left;
};

/// Columns of plain text, two spaces apart, without lines or colour. A table whose headings are all
/// empty has no heading line. Cells are counted in bytes, so they should be ASCII.
///
///   axis    calls    bytes
///   data       12  1.5 MB
///
/// Thread-safety: as a std::vector.
class text_table {
 public:
  explicit text_table(std::vector<table_column> columns) : columns_(std::move(columns)) {}

  /// Adds a line; cells that are not given are empty. Throws when there are more than columns.
  text_table& row(std::vector<std::string> cells) {
    require(cells.size() <= columns_.size(), "table: a row of ", cells.size(),
            " cells was given to ", columns_.size(), " columns; give at most one cell a column");
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
    return *this;
  }

  /// All lines, each with its end; no line ends in spaces.
  std::string text() const {
    std::vector<std::string> headings;
    for (const table_column& column : columns_) headings.push_back(column.heading);
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::size_t width = headings[i].size();
      for (const auto& cells : rows_) width = std::max(width, cells[i].size());
      widths.push_back(width);
    }
    std::string all;
    const bool headed =
        std::any_of(headings.begin(), headings.end(), [](auto& text) { return !text.empty(); });
    if (headed) all += line(headings, widths);
    for (const auto& cells : rows_) all += line(cells, widths);
    return all;
  }

 private:
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string room(widths[i] - cells[i].size(), ' ');
      if (i != 0) text += "  ";
      text += columns_[i].side == column_side::right ? room + cells[i] : cells[i] + room;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  std::vector<table_column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tenon::inline v0
