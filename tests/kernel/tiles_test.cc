// Tiles of bf16: how they are filled, and their products on each kind of unit that this processor has.
#include "trireme/kernel/cpu/simd/tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trireme/tensor/half.h"

namespace trireme::kernel::tiles {
namespace {

// Small integers, so that every product and sum is exact.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<Low> bits;

  Matrix(std::int64_t r, std::int64_t c, int seed) : rows(r), columns(c) {
    for (std::int64_t i = 0; i < r * c; ++i)
      bits.push_back(std::bit_cast<Low>(BFloat16(static_cast<float>((i * 7 + seed * 5 + i / 11) % 9 - 4))));
  }
  float at(std::int64_t r, std::int64_t c) const {
    if (r >= rows || c >= columns) return 0;
    return static_cast<float>(std::bit_cast<BFloat16>(bits[static_cast<std::size_t>(r * columns + c)]));
  }
  MatrixBlock piece(std::int64_t row, std::int64_t column) const {
    return {bits.data() + row * columns + column, columns, std::min(kSide, rows - row),
            std::min(kDepth, columns - column)};
  }
};

const std::vector<const Units*>& all_units() {
  static const std::vector<const Units*> all = [] {
    std::vector<const Units*> found;
    for (const Units* u : {amx(), avx512_bf16()})
      if (u != nullptr) found.push_back(u);
    return found;
  }();
  return all;
}

using Tiles = std::vector<Low>;

// A [m, k] x B [k, 32], tails and all, in the four ways in which tiles are filled.
void check(const Units& units, std::int64_t m, std::int64_t k, bool left_by_columns, bool right_by_rows) {
  SCOPED_TRACE(std::string(units.name) + " " + std::to_string(m) + " x " + std::to_string(k));
  const std::int64_t depth = depths(k), run = depth * kElems;
  const Matrix a = left_by_columns ? Matrix(k, m, 1) : Matrix(m, k, 1);
  const Matrix b = right_by_rows ? Matrix(k, 30, 2) : Matrix(30, k, 2);
  Tiles left(static_cast<std::size_t>(2 * run), 0xFFFF), right(static_cast<std::size_t>(2 * run), 0xFFFF);
  for (std::int64_t d = 0; d < depth; ++d) {
    const std::int64_t at = d * kDepth;
    if (left_by_columns) load_columns(a.piece(at, 0), a.piece(at + kSide, 0), &left[d * kElems], run);
    if (right_by_rows) load_pair(b.piece(at, 0), b.piece(at + kSide, 0), &right[d * kPair]);
    for (std::int64_t half = 0; half < 2; ++half) {
      if (!left_by_columns) load(a.piece(half * kSide, at), &left[half * run + d * kElems]);
      if (!right_by_rows) load_turned(b.piece(half * kSide, at), &right[d * kPair + half * kElems]);
    }
  }
  constexpr std::int64_t kRow = 40;  // of C
  std::vector<float> c(32 * kRow, 1000.0F);
  const int tiles = m > kSide ? 2 : 1;
  const Scope scope(units);
  for (const bool adds : {false, true}) {
    (adds ? units.multiply_passing : units.multiply)(left.data(), run, tiles, right.data(), depth, adds,
                                                     c.data(), kRow);
    for (std::int64_t i = 0; i < 32; ++i)
      for (std::int64_t j = 0; j < kRow; ++j) {
        float want = 0;
        for (std::int64_t d = 0; d < k; ++d)
          want += (left_by_columns ? a.at(d, i) : a.at(i, d)) * (right_by_rows ? b.at(d, j) : b.at(j, d));
        if (adds) want *= 2;
        if (i >= tiles * kSide || j >= 32) want = 1000;
        ASSERT_EQ(c[static_cast<std::size_t>(i * kRow + j)], want) << i << ", " << j;
      }
  }
}

TEST(Tiles, MultiplyMatricesOfAnySizeFilledInAnyWay) {
  for (const Units* units : all_units())
    for (const std::int64_t m : {32, 31, 17, 16, 3, 1})
      for (const std::int64_t k : {32, 96, 100, 17, 1})
        for (const bool left : {false, true})
          for (const bool right : {false, true}) check(*units, m, k, left, right);
}

TEST(Tiles, AreThereWhereTheProcessorSaysSo) {
#ifdef __x86_64__
  EXPECT_EQ(avx512_bf16() != nullptr, __builtin_cpu_supports("avx512bf16") != 0);
#endif
  EXPECT_TRUE(amx() == nullptr || avx512_bf16() == nullptr || best() == amx());
  EXPECT_TRUE(avx512_bf16() != nullptr || best() == nullptr);
}

}  // namespace
}  // namespace trireme::kernel::tiles
