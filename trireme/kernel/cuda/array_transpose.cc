// Transpositions through shared memory. A tile is read along x's last dimension and written along y's, so
// both sides move whole sectors; its rows are one word longer than it is wide, which spreads columns over the
// banks.
#include <algorithm>

#include <fmt/format.h>

#include "trireme/kernel/cuda/array.h"

namespace trireme::kernel::cuda {
namespace {

// Rows of a tile lie along y's last dimension (ROWS elements, XROW apart in x), columns along x's last (COLS
// elements, YCOL apart in y); every other index is part of the batch.
constexpr const char* kText = R"cuda(
typedef $word Word;
typedef $out Out;
constexpr int SIDE = 64;
constexpr u32 ROWS = $rows, COLS = $cols, ACROSS = (COLS + SIDE - 1) / SIDE, DOWN = (ROWS + SIDE - 1) / SIDE;
inline i64 from(u32 i) { return $from; }
inline i64 to(u32 i) { return $to; }
extern "C" __global__ void __launch_bounds__(256) turn(const Word* x, Out* y) {
  __shared__ Word tile[SIDE][SIDE + 1];
  const u32 block = blockIdx.x, batch = block / (ACROSS * DOWN);
  const u32 col = block % ACROSS * SIDE, row = block / ACROSS % DOWN * SIDE;
  const int lane = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
  x += from(batch);
  y += to(batch);
#pragma unroll
  for (int k = 0; k < SIDE; k += 256 / SIDE)
    if (col + lane < COLS && row + first + k < ROWS)
      tile[first + k][lane] = x[(i64)(row + first + k) * $xrow + col + lane];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SIDE; k += 256 / SIDE)
    if (row + lane < ROWS && col + first + k < COLS)
      y[(i64)(col + first + k) * $ycol + row + lane] = $moved;
}
)cuda";

// The same for 16-bit elements where everything comes in pairs: 32 lanes move 64 elements of a row at once.
constexpr const char* kPairText = R"cuda(
constexpr int SIDE = 64;
constexpr u32 ROWS = $rows, COLS = $cols, ACROSS = (COLS + SIDE - 1) / SIDE, DOWN = (ROWS + SIDE - 1) / SIDE;
inline i64 from(u32 i) { return $from; }
inline i64 to(u32 i) { return $to; }
extern "C" __global__ void __launch_bounds__(256) turn(const u16* x, u16* y) {
  __shared__ u32 tile[SIDE][SIDE / 2 + 1];
  const u32 block = blockIdx.x, batch = block / (ACROSS * DOWN);
  const u32 col = block % ACROSS * SIDE, row = block / ACROSS % DOWN * SIDE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += from(batch);
  y += to(batch);
#pragma unroll
  for (int r = warp; r < SIDE; r += 8)
    if (row + r < ROWS && col + 2 * lane < COLS)
      tile[r][lane] = *(const u32*)(x + (i64)(row + r) * $xrow + col + 2 * lane);
  __syncthreads();
#pragma unroll
  for (int c = warp; c < SIDE / 2; c += 8) {
    if (row + 2 * lane >= ROWS || col + 2 * c >= COLS) continue;
    const u32 above = tile[2 * lane][c], below = tile[2 * lane + 1][c];
    u16* at = y + (i64)(col + 2 * c) * $ycol + row + 2 * lane;
    *(u32*)at = (above & 0xffffu) | below << 16;
    *(u32*)(at + $ycol) = above >> 16 | (below & 0xffff0000u);
  }
}
)cuda";

std::string batch_offset(const std::vector<Group>& groups) {
  std::string sum = "0";
  std::int64_t inner = 1;
  for (std::size_t k = groups.size(); k-- > 0; inner *= groups[k].size)
    sum += fmt::format(" + (i64)(i / {}u % {}u) * {}ll", inner, groups[k].size, groups[k].stride);
  return sum;
}

}  // namespace

Made make_tiled_transpose(CudaDevice& device, const Elements& x, DType y) {
  std::vector<Group> dims;  // of y, merged where x runs on
  std::int64_t n = 1;
  for (const Group& g : x.groups) {
    n *= g.size;
    if (g.size == 1) continue;
    if (!dims.empty() && dims.back().stride == g.stride * g.size) {
      dims.back() = {dims.back().size * g.size, g.stride};
    } else {
      dims.push_back(g);
    }
  }
  const auto along = std::find_if(dims.begin(), dims.end(), [](const Group& g) { return g.stride == 1; });
  constexpr std::int64_t kLeast = 8;
  if (n == 0 || n >= std::int64_t{1} << 31 || dims.size() < 2 || along + 1 >= dims.end() ||
      along->size < kLeast || dims.back().size < kLeast)
    return std::unique_ptr<CudaKernel>();
  const Group row = dims.back(), col = *along;
  std::vector<Group> from, to;
  std::int64_t y_stride = n, col_stride = 0, batch = 1;
  for (const Group& g : dims) {
    y_stride /= g.size;
    if (g.stride == 1) {
      col_stride = y_stride;
    } else if (&g != &dims.back()) {
      from.push_back(g);
      to.push_back({g.size, y_stride});
      batch *= g.size;
    }
  }
  const bool moved = x.dtype == y;
  const Scalar in = moved ? word_of(y) : scalar_of(x.dtype), out = moved ? in : scalar_of(y);
  const auto compiled = [&](const char* text) {
    return device.function(with(text, {{"word", in.memory},
                                       {"out", out.memory},
                                       {"moved", out.store(in.load("tile[lane][first + k]"))},
                                       {"rows", std::to_string(row.size)},
                                       {"cols", std::to_string(col.size)},
                                       {"from", batch_offset(from)},
                                       {"to", batch_offset(to)},
                                       {"xrow", std::to_string(row.stride)},
                                       {"ycol", std::to_string(col_stride)}}),
                           "turn");
  };
  const auto even = [](const std::vector<Group>& groups) {
    return std::all_of(groups.begin(), groups.end(), [](const Group& g) { return g.stride % 2 == 0; });
  };
  const bool pairs = moved && in.size == 2 && row.size % 2 == 0 && col.size % 2 == 0 && row.stride % 2 == 0 &&
                     col_stride % 2 == 0 && even(from) && even(to);
  TR_ASSIGN_OR_RETURN(const Function* plain, compiled(kText));
  TR_ASSIGN_OR_RETURN(const Function* fast, compiled(pairs ? kPairText : kText));
  constexpr std::int64_t kSide = 64;
  const auto blocks =
      static_cast<unsigned>(((row.size + kSide - 1) / kSide) * ((col.size + kSide - 1) / kSide) * batch);
  return make_kernel([plain, fast, blocks](const CudaArgs& a) -> Status {
    std::byte *from = a.in(0).raw(), *to = a.out(0).raw();
    const auto addresses = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
    return launch(a.stream, addresses % 4 == 0 ? *fast : *plain, {blocks}, {256}, 0, from, to);
  });
}

}  // namespace trireme::kernel::cuda
