// Transpositions through shared memory. A tile is read along x's last dimension and written along y's, so
// both sides move whole sectors; its rows are one word longer than it is wide, which spreads columns over the
// banks.
#include <algorithm>

#include <fmt/format.h>

#include "trireme/kernel/cuda/array.h"

namespace trireme::kernel::cuda {

extern const char kTilesText[], kTurnText[], kTurnPairsText[];  // array_transpose.cu

namespace {

std::string batch_offset(const std::vector<StridedDim>& dims) {
  std::string sum = "0";
  std::int64_t inner = 1;
  for (std::size_t k = dims.size(); k-- > 0; inner *= dims[k].size)
    sum += fmt::format(" + (i64)(i / {}u % {}u) * {}ll", inner, dims[k].size, dims[k].stride);
  return sum;
}

}  // namespace

Made make_tiled_transpose(CudaDevice& device, const Elements& x, DType y) {
  std::vector<StridedDim> dims;  // of y, merged where x runs on
  std::int64_t n = 1;
  for (const StridedDim& g : x.dims) {
    n *= g.size;
    if (g.size == 1) continue;
    if (!dims.empty() && dims.back().stride == g.stride * g.size) {
      dims.back() = {dims.back().size * g.size, g.stride};
    } else {
      dims.push_back(g);
    }
  }
  const auto along =
      std::find_if(dims.begin(), dims.end(), [](const StridedDim& g) { return g.stride == 1; });
  constexpr std::int64_t kLeast = 8;
  if (n == 0 || n >= std::int64_t{1} << 31 || dims.size() < 2 || along + 1 >= dims.end() ||
      along->size < kLeast || dims.back().size < kLeast)
    return std::unique_ptr<CudaKernel>();
  const StridedDim row = dims.back(), col = *along;
  std::vector<StridedDim> from, to;
  std::int64_t y_stride = n, col_stride = 0, batch = 1;
  for (const StridedDim& g : dims) {
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
  const std::string head = fmt::format(
      "typedef {} Word;\ntypedef {} Out;\nconstexpr u32 ROWS = {}, COLS = {};\nconstexpr i64 XROW = {}, YCOL "
      "= {};\n"
      "inline i64 from(u32 i) {{ return {}; }}\ninline i64 to(u32 i) {{ return {}; }}\n"
      "inline Out moved(Word v) {{ return {}; }}\n{}",
      in.memory, out.memory, row.size, col.size, row.stride, col_stride, batch_offset(from), batch_offset(to),
      out.store(in.load("v")), kTilesText);
  const auto even = [](const std::vector<StridedDim>& dims) {
    return std::all_of(dims.begin(), dims.end(), [](const StridedDim& g) { return g.stride % 2 == 0; });
  };
  const bool pairs = moved && in.size == 2 && row.size % 2 == 0 && col.size % 2 == 0 && row.stride % 2 == 0 &&
                     col_stride % 2 == 0 && even(from) && even(to);
  TR_ASSIGN_OR_RETURN(const Function* plain, device.function(head + kTurnText, "turn"));
  TR_ASSIGN_OR_RETURN(const Function* fast, pairs ? device.function(head + kTurnPairsText, "turn_pairs")
                                                  : Result<const Function*>(plain));
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
