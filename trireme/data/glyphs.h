// The skeletons of the built-in digits: for each digit a few handwriting styles, each a list of pen
// movements. Constant data; everything here is thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace trireme::data {

enum class Pen : std::uint8_t {
  kDown,    // lift the pen and start a new stroke here
  kSmooth,  // go on to this point; the curve passes through it without a kink
  kCorner,  // go on to this point and turn sharply there
};

// A point the pen passes. Both coordinates are per cent of the height of the digit: x to the right (50 is the
// middle of the digit), y down (0 is its top, 100 its foot).
struct GlyphPoint {
  Pen pen;
  std::int8_t x, y;
};

// One way to write one digit. Begins with Pen::kDown and has at most kMaxGlyphPoints points.
using Glyph = std::span<const GlyphPoint>;
inline constexpr int kMaxGlyphPoints = 24;

// The styles of `digit`, at least two. Precondition: 0 <= digit <= 9.
std::span<const Glyph> glyph_styles(int digit);

}  // namespace trireme::data
