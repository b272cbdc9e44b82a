// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/parallel/schedule/chart.hpp"

namespace tenon::inline v0 {
namespace detail {

/// One colour a pass, told apart by those who see no red or green too; later chunks are darker.
/// Source: M. Okabe, K. Ito, Color universal design, 2008, lightened so that black text is read.
struct pass_colour {
  int red, green, blue;
};
constexpr pass_colour colour_of(pass_kind pass) noexcept {
  switch (pass) {
    case pass_kind::forward:
      return {136, 204, 240};
    case pass_kind::backward:
      return {120, 208, 176};
    case pass_kind::input_gradient:
      return {250, 214, 112};
    case pass_kind::weight_gradient:
      return {232, 160, 120};
  }
  return {255, 255, 255};
}

/// A colour as SVG has it, darker by up to a quarter with the chunk.
inline std::string fill_of(pass_kind pass, std::int64_t chunk, std::int64_t chunks) {
  const pass_colour colour = colour_of(pass);
  const auto shade = [&](int level) {
    return level - static_cast<int>(level * chunk / (4 * std::max(chunks - 1, std::int64_t{1})));
  };
  return joined("rgb(", shade(colour.red), ",", shade(colour.green), ",", shade(colour.blue), ")");
}

/// What may stand in a text of XML.
inline std::string escaped_for_xml(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace detail

/// A schedule as an SVG image, one row a rank, time from left to right, with the number of the
/// microbatch in each pass, the title above and a legend below. `times` are those that
/// `time_schedule` gave this table.
inline std::string svg_text(const schedule_table& table, const schedule_times& times,
                            std::string_view title) {
  const auto [stages, microbatches, chunks] = table.sizes;
  const auto digits = static_cast<std::int64_t>(std::to_string(microbatches - 1).size());
  const std::int64_t unit = std::max(std::int64_t{20}, 8 * digits + 6), height = 26;
  const std::int64_t left = 24 + 8 * static_cast<std::int64_t>(std::to_string(stages).size()) + 36;
  const std::int64_t top = 40;
  const std::int64_t below = top + stages * height;
  const std::int64_t legend_width = 620;
  const std::int64_t width = left + std::max(times.total * unit, legend_width) + 16;
  std::string text = joined(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", below + 68,
      "\" font-family=\"sans-serif\" font-size=\"12\">\n", "<rect width=\"", width, "\" height=\"",
      below + 68, "\" fill=\"white\"/>\n", "<text x=\"16\" y=\"24\" font-size=\"15\">",
      detail::escaped_for_xml(title), "</text>\n");

  const auto box = [&](std::int64_t x, std::int64_t y, std::int64_t wide, const std::string& fill) {
    text += joined("<rect x=\"", x, "\" y=\"", y, "\" width=\"", wide, "\" height=\"", height - 4,
                   "\" fill=\"", fill, "\" stroke=\"#555555\" stroke-width=\"0.6\"/>\n");
  };
  bool shown[4] = {};  // passes that the table has
  for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
    const std::int64_t y = top + static_cast<std::int64_t>(rank) * height;
    text += joined("<text x=\"16\" y=\"", y + 15, "\">rank ", rank, "</text>\n");
    box(left, y, times.total * unit, "#eeeeee");
    for (std::size_t i = 0; i < table.ranks[rank].size(); ++i) {
      const schedule_entry& entry = table.ranks[rank][i];
      const std::int64_t x = left + times.begins[rank][i] * unit;
      const std::int64_t wide = times.costs.of(entry.pass) * unit;
      box(x, y, wide, detail::fill_of(entry.pass, entry.chunk, chunks));
      text += joined("<text x=\"", x + wide / 2, "\" y=\"", y + 15, "\" text-anchor=\"middle\">",
                     entry.microbatch, "</text>\n");
      shown[static_cast<std::size_t>(entry.pass)] = true;
    }
  }

  // An axis with a mark every few units, then the legend.
  std::int64_t step = 1;
  while (step * unit < 60) step += step == 1 ? 4 : 5;
  for (std::int64_t time = 0; time <= times.total; time += step) {
    text +=
        joined("<text x=\"", left + time * unit, "\" y=\"", below + 12,
               "\" font-size=\"10\" fill=\"#555555\" text-anchor=\"middle\">", time, "</text>\n");
  }
  std::int64_t x = left;
  const auto explain = [&](const std::string& fill, std::string_view words) {
    box(x, below + 32, 20, fill);
    text += joined("<text x=\"", x + 26, "\" y=\"", below + 47, "\">", words, "</text>\n");
    x += 44 + 7 * static_cast<std::int64_t>(words.size());
  };
  for (const pass_kind pass : {pass_kind::forward, pass_kind::backward, pass_kind::input_gradient,
                               pass_kind::weight_gradient}) {
    if (shown[static_cast<std::size_t>(pass)]) {
      explain(detail::fill_of(pass, 0, chunks), name_of(pass));
    }
  }
  explain("#eeeeee", "idle");
  if (chunks > 1) {
    explain(detail::fill_of(pass_kind::forward, chunks - 1, chunks), "later chunks are darker");
  }
  return text + "</svg>\n";
}

}  // namespace tenon::inline v0
