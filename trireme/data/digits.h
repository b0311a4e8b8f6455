// The built-in data set "digits": handwritten-looking digits drawn by code, so that the default job needs no
// download.
//
// Each image is a pure function of (seed, index), computed in integer arithmetic only: the same bits on every
// machine, compiler and thread count. Nothing here allocates, keeps state or touches files; everything is
// thread-safe. docs/digits.md shows the pictures' recipe and how hard they are.
#pragma once

#include <cstdint>
#include <span>

namespace trireme::data {

// Which digits: another seed is another training and test set of the same difficulty.
struct DigitSpec {
  std::uint64_t seed = 2024;
};

inline constexpr int kDigitSide = 28;
inline constexpr std::int64_t kDigitTrain = 60000, kDigitTest = 10000;

// The label, 0..9, of sample `index`. Every aligned run of ten samples holds each digit once, in shuffled
// order, so any prefix whose length is a multiple of ten is balanced. Precondition: 0 <= index < kDigitTrain
// + kDigitTest.
int digit_label(const DigitSpec& spec, std::int64_t index);

// Draws sample `index` (train: [0, 60000); test: [60000, 70000)) into `out`, row-major, 0 = paper, 255 = ink,
// and returns its label. Precondition as above. About 9 microseconds on one core.
int draw_digit(const DigitSpec& spec, std::int64_t index,
               std::span<std::uint8_t, kDigitSide * kDigitSide> out);

}  // namespace trireme::data
