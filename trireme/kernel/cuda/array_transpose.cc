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
constexpr int SIDE = 64;
constexpr u32 ROWS = $rows, COLS = $cols, ACROSS = (COLS + SIDE - 1) / SIDE, DOWN = (ROWS + SIDE - 1) / SIDE;
inline i64 from(u32 i) { return $from; }
inline i64 to(u32 i) { return $to; }
extern "C" __global__ void __launch_bounds__(256) turn(const Word* x, Word* y) {
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
      y[(i64)(col + first + k) * $ycol + row + lane] = tile[lane][first + k];
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

Made make_tiled_transpose(CudaDevice& device, DType dtype, const std::vector<Group>& groups) {
  std::vector<Group> dims;  // of y, merged where x runs on
  std::int64_t n = 1;
  for (const Group& g : groups) {
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
  const std::string text = with(kText, {{"word", word_of(dtype).memory},
                                        {"rows", std::to_string(row.size)},
                                        {"cols", std::to_string(col.size)},
                                        {"from", batch_offset(from)},
                                        {"to", batch_offset(to)},
                                        {"xrow", std::to_string(row.stride)},
                                        {"ycol", std::to_string(col_stride)}});
  TR_ASSIGN_OR_RETURN(const Function* turn, device.function(text, "turn"));
  constexpr std::int64_t kSide = 64;
  const auto blocks =
      static_cast<unsigned>(((row.size + kSide - 1) / kSide) * ((col.size + kSide - 1) / kSide) * batch);
  return make_kernel([turn, blocks](const CudaArgs& a) -> Status {
    return launch(a.stream, *turn, {blocks}, {256}, 0, a.in(0).raw(), a.out(0).raw());
  });
}

}  // namespace trireme::kernel::cuda
