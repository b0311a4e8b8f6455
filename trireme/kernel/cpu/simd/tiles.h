// Products of bf16 matrices on the processor's units for them, sums in f32: AMX tiles, or avx512_bf16 where
// there are none. Matrices are cut into tiles of 1 KiB, each in one piece, and filled up with zeros:
//   a left tile   16 rows x 32 of depth, row by row
//   a right tile  32 of depth x 16 columns, pairs of rows side by side: (0,0) (1,0) (0,1) (1,1) ...
// The order of sums depends on the depth alone.
#pragma once

#include <cstdint>

namespace trireme::kernel::tiles {

inline constexpr std::int64_t kSide = 16, kDepth = 32, kElems = kSide * kDepth, kPair = 2 * kElems;
inline std::int64_t sides(std::int64_t n) { return (n + kSide - 1) / kSide; }
inline std::int64_t depths(std::int64_t n) { return (n + kDepth - 1) / kDepth; }

using Low = std::uint16_t;  // the bits of a bf16

// Some rows of a matrix in memory, at most 16, and at most 32 of its columns; what is missing is 0.
struct MatrixBlock {
  const Low* at;
  std::int64_t stride, rows, columns;
};

// Rows that lie anywhere, at most 32, and at most 32 columns from `at` on; a null row is 0.
struct Rows {
  const Low* const* rows;
  std::int64_t count, at, columns;
};

// A piece of an f32 matrix, which is rounded where it is read.
struct WidePiece {
  const float* at;
  std::int64_t stride, rows, columns;
};

struct Units {
  const char* name;
  // Before the first product of a thread and after its last.
  void (*begin)();
  void (*end)();
  // C[16 m, 32] = A B, or += where `adds`: m (1 or 2) runs of `depth` left tiles, `a_next` elements apart,
  // and one of as many pairs of right tiles. Rows of C are `ldc` floats apart.
  using Multiply = void (*)(const Low* a, std::int64_t a_next, int m, const Low* b, std::int64_t depth,
                            bool adds, float* c, std::int64_t ldc);
  Multiply multiply;
  // The same where A is not read again soon, and B is: A leaves B in the first cache.
  Multiply multiply_passing;
};

// Null where the processor, or its system, lets nobody use them. Constant over the life of the process.
const Units* amx();
const Units* avx512_bf16();
// Those that are faster than f32: AMX, or AMD's avx512_bf16 (Intel's multiplies at 0.6 of the rate of f32).
const Units* best();

// For processors with any of these units.
void load(const MatrixBlock& rows, Low* tile);  // a left tile of these rows
void load(const Rows& rows, Low* tile);
void load_turned(const MatrixBlock& columns, Low* tile);  // a right tile whose columns these are
void load_turned(const WidePiece& columns, Low* tile);
// A pair of right tiles whose rows of depth these are: 16 and 16, of 32 columns.
void load_pair(const MatrixBlock& first, const MatrixBlock& last, Low* pair);
void load_pair(const WidePiece& first, const WidePiece& last, Low* pair);
void load_pair(const Rows& rows, Low* pair);
// Two left tiles, `next` elements apart, whose columns these are.
void load_columns(const MatrixBlock& first, const MatrixBlock& last, Low* tile, std::int64_t next);

// Rounds a matrix as a cast does, but for numbers below 2^-126, which become 0.
void round_rows(const float* from, std::int64_t from_stride, Low* to, std::int64_t to_stride,
                std::int64_t rows, std::int64_t columns);
// Copies a matrix past the caches.
void copy_away(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t columns);

// Products on this thread while it lives.
class Scope {
 public:
  explicit Scope(const Units& units) : units_(units) { units_.begin(); }
  ~Scope() { units_.end(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Units& units_;
};

}  // namespace trireme::kernel::tiles
