// A priced timetable as a picture: a row per stage, time to the right. Text for a terminal, SVG for a page.
#pragma once

#include "trireme/parallel/pipeline/price.h"

namespace trireme::parallel {

// Columns of a text and pixels of a picture that are still readable.
inline constexpr int kMaxDrawnColumns = 100, kMaxDrawnPixels = 4000, kMaxDrawnStages = 32;

// "F3" is a forward of micro-batch 3, "F3b" that of the second virtual stage of a stage; where columns do not
// suffice, letters of phases only; beyond that a line that says so.
std::string draw_text(const PricedTimetable& timetable);

// A colour per phase, light and dark; the virtual stages of a stage are lighter one after the other. `title`
// is plain text. kInvalid beyond a readable size.
Result<std::string> draw_svg(const PricedTimetable& timetable, std::string_view title);

}  // namespace trireme::parallel
