#include "trireme/data/glyphs.h"

#include "trireme/base/check.h"

namespace trireme::data {
namespace {

constexpr GlyphPoint down(int x, int y) {
  return {Pen::kDown, static_cast<std::int8_t>(x), static_cast<std::int8_t>(y)};
}
constexpr GlyphPoint to(int x, int y) {
  return {Pen::kSmooth, static_cast<std::int8_t>(x), static_cast<std::int8_t>(y)};
}
constexpr GlyphPoint turn(int x, int y) {
  return {Pen::kCorner, static_cast<std::int8_t>(x), static_cast<std::int8_t>(y)};
}

// An even oval closed at the top, and a quick one whose end runs past its beginning.
constexpr GlyphPoint kZeroOval[] = {down(52, 4), to(30, 14), to(20, 50), to(31, 86), to(52, 96),
                                    to(71, 84),  to(80, 50), to(70, 14), to(50, 4)};
constexpr GlyphPoint kZeroQuick[] = {down(66, 12), to(44, 5),  to(24, 30), to(23, 68), to(46, 96),
                                     to(74, 74),   to(78, 34), to(60, 7),  to(40, 13)};
constexpr Glyph kZero[] = {kZeroOval, kZeroQuick};

// A bare stroke, one with a flag, and one with a flag and a foot.
constexpr GlyphPoint kOneBare[] = {down(50, 4), to(51, 50), to(50, 96)};
constexpr GlyphPoint kOneFlag[] = {down(28, 27), to(41, 17), turn(54, 4), to(54, 50), to(53, 96)};
constexpr GlyphPoint kOneFoot[] = {down(31, 24), to(42, 15),   turn(53, 4), to(53, 50),
                                   to(53, 94),   down(27, 95), to(52, 95),  to(79, 94)};
constexpr Glyph kOne[] = {kOneBare, kOneFlag, kOneFoot};

// A swan with a straight base, and one with a loop at the foot.
constexpr GlyphPoint kTwoBase[] = {down(22, 26), to(35, 8),    to(58, 5),  to(76, 21), to(69, 44),
                                   to(46, 70),   turn(20, 94), to(50, 93), to(83, 93)};
constexpr GlyphPoint kTwoLoop[] = {down(23, 22), to(48, 5),  to(75, 20), to(67, 50), to(44, 80),
                                   to(26, 95),   to(18, 86), to(34, 80), to(58, 93), to(84, 90)};
constexpr Glyph kTwo[] = {kTwoBase, kTwoLoop};

// Two bows, and a flat roof over one bow.
constexpr GlyphPoint kThreeBows[] = {down(22, 15), to(46, 4),  to(71, 14), to(68, 36), turn(43, 46),
                                     to(72, 56),   to(79, 77), to(55, 96), to(20, 86)};
constexpr GlyphPoint kThreeFlat[] = {down(22, 7), to(48, 6),  turn(75, 6), to(60, 24), turn(45, 41),
                                     to(74, 54),  to(79, 79), to(52, 97),  to(18, 85)};
constexpr Glyph kThree[] = {kThreeBows, kThreeFlat};

// Open at the top, closed without lifting the pen, and a kite with a short stem.
constexpr GlyphPoint kFourOpen[] = {down(27, 6), to(23, 32),   turn(18, 57), to(50, 56),
                                    to(85, 55),  down(66, 10), to(65, 52),   to(63, 97)};
constexpr GlyphPoint kFourClosed[] = {down(66, 97), to(66, 50), turn(67, 4), to(44, 34),
                                      turn(16, 67), to(50, 67), to(88, 66)};
constexpr GlyphPoint kFourKite[] = {down(56, 4), to(37, 33),   turn(15, 63), to(50, 62),
                                    to(87, 61),  down(64, 36), to(63, 66),   to(61, 97)};
constexpr Glyph kFour[] = {kFourOpen, kFourClosed, kFourKite};

// Neck and belly with the roof drawn last, all in one go with corners, and a soft S.
constexpr GlyphPoint kFiveRoof[] = {down(29, 7), to(27, 25), turn(24, 45), to(50, 38), to(76, 54), to(75, 80),
                                    to(50, 97),  to(19, 87), down(29, 7),  to(54, 6),  to(80, 5)};
constexpr GlyphPoint kFiveCorners[] = {down(79, 6), to(54, 7),  turn(29, 8), turn(25, 46),
                                       to(55, 40),  to(79, 64), to(62, 92),  to(19, 90)};
constexpr GlyphPoint kFiveSoft[] = {down(78, 8), to(44, 8),  to(26, 28), to(50, 44),
                                    to(76, 66),  to(58, 94), to(19, 88)};
constexpr Glyph kFive[] = {kFiveRoof, kFiveCorners, kFiveSoft};

// A curl, and a straight back with a low belly.
constexpr GlyphPoint kSixCurl[] = {down(69, 6), to(41, 21), to(22, 56), to(30, 87), to(54, 97),
                                   to(78, 80),  to(70, 56), to(46, 52), to(25, 68)};
constexpr GlyphPoint kSixStraight[] = {down(57, 3), to(35, 36), to(22, 72), to(42, 97),
                                       to(72, 87),  to(72, 62), to(45, 56), to(25, 74)};
constexpr Glyph kSix[] = {kSixCurl, kSixStraight};

// Plain, with a bar, and with a serif.
constexpr GlyphPoint kSevenPlain[] = {down(18, 8), to(50, 8), turn(81, 7), to(57, 48), to(42, 97)};
constexpr GlyphPoint kSevenBar[] = {down(18, 8), to(50, 7),    turn(81, 6), to(57, 48),
                                    to(43, 97),  down(34, 52), to(53, 51),  to(74, 49)};
constexpr GlyphPoint kSevenSerif[] = {down(19, 24), turn(20, 8), to(50, 9),
                                      turn(81, 7),  to(58, 46),  to(48, 97)};
constexpr Glyph kSeven[] = {kSevenPlain, kSevenBar, kSevenSerif};

// One crossing stroke, and two rings, one on the other.
constexpr GlyphPoint kEightCross[] = {down(71, 17), to(49, 4),  to(28, 19), to(40, 41),
                                      to(64, 56),   to(78, 77), to(52, 97), to(24, 78),
                                      to(37, 56),   to(62, 41), to(73, 21), to(60, 8)};
constexpr GlyphPoint kEightRings[] = {down(50, 4), to(29, 14), to(32, 38),   to(51, 46), to(71, 36),
                                      to(71, 14),  to(48, 4),  down(50, 46), to(25, 61), to(28, 89),
                                      to(52, 97),  to(77, 87), to(74, 60),   to(48, 46)};
constexpr Glyph kEight[] = {kEightCross, kEightRings};

// A ring on a straight stem, and a ring whose tail swings back.
constexpr GlyphPoint kNineStem[] = {down(75, 20), to(53, 4),    to(27, 18), to(28, 43), to(53, 50),
                                    to(73, 34),   turn(76, 12), to(74, 52), to(71, 97)};
constexpr GlyphPoint kNineTail[] = {down(73, 20), to(49, 4),  to(27, 23), to(36, 47), to(60, 43),
                                    to(76, 19),   to(78, 53), to(65, 86), to(33, 96)};
constexpr Glyph kNine[] = {kNineStem, kNineTail};

constexpr std::span<const Glyph> kStyles[10] = {kZero, kOne, kTwo,   kThree, kFour,
                                                kFive, kSix, kSeven, kEight, kNine};

}  // namespace

std::span<const Glyph> glyph_styles(int digit) {
  TR_CHECK(digit >= 0 && digit <= 9);
  return kStyles[digit];
}

}  // namespace trireme::data
