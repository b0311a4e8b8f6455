#include "trireme/kernel/cpu/simd/tiles.h"

#ifdef __x86_64__

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"  // what GCC 12's intrinsics begin with
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace trireme::kernel::tiles {
namespace {

#define TR_PACKS __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define TR_DOTS __attribute__((target("avx512f,avx512bf16")))
#define TR_TILES __attribute__((target("amx-tile,amx-bf16")))

// What the processor wants to know of its eight registers: sixteen rows of 64 bytes each.
struct Palette {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
constexpr Palette whole_tiles() {
  Palette p;
  for (std::size_t i = 0; i < 8; ++i) p.row_bytes[i] = 64, p.rows[i] = kSide;
  return p;
}
constexpr Palette kWholeTiles = whole_tiles();

TR_TILES void begin_tiles() { _tile_loadconfig(&kWholeTiles); }
TR_TILES void end_tiles() { _tile_release(); }

// A tile of A; the intrinsics want the register as a literal.
#define TR_LEFT(tile, from)                 \
  do {                                      \
    if constexpr (kPassing)                 \
      _tile_stream_loadd(tile, from, kRow); \
    else                                    \
      _tile_loadd(tile, from, kRow);        \
  } while (false)

// Registers 0 to 3 add up C, 4 and 5 hold A, 6 and 7 hold B.
template <bool kPassing>
TR_TILES void multiply_tiles(const Low* a, std::int64_t a_next, int m, const Low* b, std::int64_t depth,
                             bool adds, float* c, std::int64_t ldc) {
  constexpr std::int64_t kRow = 64;  // bytes
  const std::int64_t c_row = ldc * 4;
  float* const below = c + kSide * ldc;
  if (adds) {
    _tile_loadd(0, c, c_row);
    _tile_loadd(1, c + kSide, c_row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if (m == 1) {
    for (std::int64_t k = 0; k < depth; ++k, a += kElems, b += kPair) {
      TR_LEFT(4, a);
      _tile_loadd(6, b, kRow);
      _tile_loadd(7, b + kElems, kRow);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
  } else {
    if (adds) {
      _tile_loadd(2, below, c_row);
      _tile_loadd(3, below + kSide, c_row);
    } else {
      _tile_zero(2);
      _tile_zero(3);
    }
    for (std::int64_t k = 0; k < depth; ++k, a += kElems, b += kPair) {
      TR_LEFT(4, a);
      _tile_loadd(6, b, kRow);
      _tile_loadd(7, b + kElems, kRow);
      TR_LEFT(5, a + a_next);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(2, below, c_row);
    _tile_stored(3, below + kSide, c_row);
  }
  _tile_stored(0, c, c_row);
  _tile_stored(1, c + kSide, c_row);
}

#undef TR_LEFT

void nothing() {}

// Eight rows of C at a time.
TR_DOTS void multiply_vectors(const Low* a, std::int64_t a_next, int m, const Low* b, std::int64_t depth,
                              bool adds, float* c, std::int64_t ldc) {
  constexpr std::int64_t kRows = 8;
  for (std::int64_t row = 0; row < m * kSide; row += kRows) {
    const Low* const left = a + row / kSide * a_next + row % kSide * kDepth;
    float* const to = c + row * ldc;
    __m512 sums[kRows][2];
    for (std::int64_t i = 0; i < kRows; ++i)
      for (int half = 0; half < 2; ++half)
        sums[i][half] = adds ? _mm512_loadu_ps(to + i * ldc + half * kSide) : _mm512_setzero_ps();
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t pair = 0; pair < kSide; ++pair) {
        const std::int64_t at = k * kPair + pair * kDepth;
        const auto first = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + at)),
                   second = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + kElems + at));
        for (std::int64_t i = 0; i < kRows; ++i) {
          int both = 0;
          __builtin_memcpy(&both, left + k * kElems + i * kDepth + 2 * pair, sizeof both);
          const auto all = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
          sums[i][0] = _mm512_dpbf16_ps(sums[i][0], all, first);
          sums[i][1] = _mm512_dpbf16_ps(sums[i][1], all, second);
        }
      }
    for (std::int64_t i = 0; i < kRows; ++i)
      for (int half = 0; half < 2; ++half) _mm512_storeu_ps(to + i * ldc + half * kSide, sums[i][half]);
  }
}

constexpr Units kAmx{"amx", begin_tiles, end_tiles, multiply_tiles<false>, multiply_tiles<true>};
constexpr Units kVectors{"avx512_bf16", nothing, nothing, multiply_vectors, multiply_vectors};

// The processor has tiles, and the system lets this process use them (it must be asked once).
bool may_use_tiles() {
  constexpr unsigned kBf16 = 1U << 22U, kTile = 1U << 24U;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

TR_PACKS inline __m512i row_of(const MatrixBlock& p, std::int64_t row) {
  if (row >= p.rows) return _mm512_setzero_si512();
  const Low* const at = p.at + row * p.stride;
  if (p.columns >= kDepth) return _mm512_loadu_si512(at);
  return _mm512_maskz_loadu_epi16((1U << static_cast<unsigned>(p.columns)) - 1U, at);
}

TR_PACKS inline __m512i row_of(const WidePiece& p, std::int64_t row) {
  if (row >= p.rows) return _mm512_setzero_si512();
  const float* const at = p.at + row * p.stride;
  __m512 low = _mm512_setzero_ps(), high = low;
  if (p.columns >= kDepth) {
    low = _mm512_loadu_ps(at);
    high = _mm512_loadu_ps(at + kSide);
  } else {
    const unsigned there = (1U << static_cast<unsigned>(p.columns)) - 1U;
    low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there & 0xFFFFU), at);
    high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there >> 16U), at + kSide);
  }
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// Sixteen rows of sixteen pairs become sixteen columns.
TR_PACKS inline void turn(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + 4 + j], 0x88);
      t[i + 4 + j] = _mm512_shuffle_i32x4(r[i + j], r[i + 4 + j], 0xDD);
    }
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xDD);
  }
}

TR_PACKS inline void store(const __m512i* r, Low* tile) {
  for (std::int64_t i = 0; i < kSide; ++i) _mm512_storeu_si512(tile + i * kDepth, r[i]);
}

TR_PACKS inline __m512i row_of(const Rows& r, std::int64_t row) {
  if (row >= r.count || r.rows[row] == nullptr) return _mm512_setzero_si512();
  const Low* const at = r.rows[row] + r.at;
  if (r.columns >= kDepth) return _mm512_loadu_si512(at);
  return _mm512_maskz_loadu_epi16((1U << static_cast<unsigned>(r.columns)) - 1U, at);
}

// Pairs of rows side by side: the left and the right sixteen columns; row(i) is one of 32.
template <typename Row>
TR_PACKS inline void pair_up(const Row& row, __m512i* left, __m512i* right) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                       38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (std::int64_t i = 0; i < kSide; ++i) {
    const __m512i even = row(2 * i), odd = row(2 * i + 1);
    left[i] = _mm512_permutex2var_epi16(even, low, odd);
    right[i] = _mm512_permutex2var_epi16(even, high, odd);
  }
}
template <typename Any>
TR_PACKS inline void pair_rows(const Any& first, const Any& last, __m512i* left, __m512i* right) {
  pair_up([&](std::int64_t i) TR_PACKS { return row_of(i < kSide ? first : last, i % kSide); }, left, right);
}

template <typename Any>
TR_PACKS inline void turn_rows(const Any& columns, Low* tile) {
  __m512i r[kSide];
  for (std::int64_t i = 0; i < kSide; ++i) r[i] = row_of(columns, i);
  turn(r);
  store(r, tile);
}

template <typename Any>
TR_PACKS inline void store_pair(const Any& first, const Any& last, Low* pair) {
  __m512i left[kSide], right[kSide];
  pair_rows(first, last, left, right);
  store(left, pair);
  store(right, pair + kElems);
}

}  // namespace

const Units* amx() {
  static const bool usable = may_use_tiles();
  return usable ? &kAmx : nullptr;
}
const Units* avx512_bf16() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") ? &kVectors : nullptr;
}
const Units* best() {
  if (avx512_bf16() == nullptr) return nullptr;
  if (amx() != nullptr) return amx();
  return __builtin_cpu_is("amd") ? avx512_bf16() : nullptr;
}

TR_PACKS void load(const MatrixBlock& rows, Low* tile) {
  for (std::int64_t i = 0; i < kSide; ++i) _mm512_storeu_si512(tile + i * kDepth, row_of(rows, i));
}

TR_PACKS void load(const Rows& rows, Low* tile) {
  for (std::int64_t i = 0; i < kSide; ++i) _mm512_storeu_si512(tile + i * kDepth, row_of(rows, i));
}

TR_PACKS void load_turned(const MatrixBlock& columns, Low* tile) { turn_rows(columns, tile); }
TR_PACKS void load_turned(const WidePiece& columns, Low* tile) { turn_rows(columns, tile); }

TR_PACKS void load_pair(const MatrixBlock& first, const MatrixBlock& last, Low* pair) {
  store_pair(first, last, pair);
}
TR_PACKS void load_pair(const WidePiece& first, const WidePiece& last, Low* pair) {
  store_pair(first, last, pair);
}

TR_PACKS void load_pair(const Rows& rows, Low* pair) {
  __m512i left[kSide], right[kSide];
  pair_up([&](std::int64_t i) TR_PACKS { return row_of(rows, i); }, left, right);
  store(left, pair);
  store(right, pair + kElems);
}

TR_PACKS void load_columns(const MatrixBlock& first, const MatrixBlock& last, Low* tile, std::int64_t next) {
  __m512i left[kSide], right[kSide];
  pair_rows(first, last, left, right);
  turn(left);
  turn(right);
  store(left, tile);
  store(right, tile + next);
}

TR_PACKS void round_rows(const float* from, std::int64_t from_stride, Low* to, std::int64_t to_stride,
                         std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < columns; i += kDepth) {
      const WidePiece piece{from + row * from_stride + i, 0, 1, columns - i};
      const __m512i low = row_of(piece, 0);
      if (piece.columns >= kDepth)
        _mm512_storeu_si512(to + row * to_stride + i, low);
      else
        _mm512_mask_storeu_epi16(to + row * to_stride + i, (1U << static_cast<unsigned>(piece.columns)) - 1U,
                                 low);
    }
}

TR_PACKS void copy_away(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
                        std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kLine = 16;
  for (std::int64_t row = 0; row < rows; ++row, from += from_stride, to += to_stride) {
    std::int64_t i = 0;
    for (; i < columns && reinterpret_cast<std::uintptr_t>(to + i) % 64 != 0; ++i) to[i] = from[i];
    for (; i + kLine <= columns; i += kLine) _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
    for (; i < columns; ++i) to[i] = from[i];
  }
  _mm_sfence();  // other threads see it when this one meets them
}

}  // namespace trireme::kernel::tiles

#else

namespace trireme::kernel::tiles {

const Units* amx() { return nullptr; }
const Units* avx512_bf16() { return nullptr; }
const Units* best() { return nullptr; }
void load(const MatrixBlock&, Low*) {}
void load(const Rows&, Low*) {}
void load_turned(const MatrixBlock&, Low*) {}
void load_turned(const WidePiece&, Low*) {}
void load_pair(const MatrixBlock&, const MatrixBlock&, Low*) {}
void load_pair(const WidePiece&, const WidePiece&, Low*) {}
void load_pair(const Rows&, Low*) {}
void load_columns(const MatrixBlock&, const MatrixBlock&, Low*, std::int64_t) {}
void round_rows(const float*, std::int64_t, Low*, std::int64_t, std::int64_t, std::int64_t) {}
void copy_away(const float*, std::int64_t, float*, std::int64_t, std::int64_t, std::int64_t) {}

}  // namespace trireme::kernel::tiles

#endif  // __x86_64__
