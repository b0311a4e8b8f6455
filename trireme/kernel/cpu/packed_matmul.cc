// matmul of f32 matrices on many threads. A library called once per part packs its operands again in every
// part, and parts on neighbouring threads drive each other out of the cache. Here all threads pack blocks of
// A and B together, once, then take tiles of C as they are free:
//   for blocks of K:  pack A into panels [K, 14] and B into panels [K, 32];  C tile += A panels x B panels
// after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. A tile of C is
// computed by one thread, its sums in the order of K: who computes it does not matter to the bits.
#include <atomic>
#include <cstring>

#include "trireme/kernel/cpu/product_tile.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

constexpr std::int64_t kInner = 256;                         // of K: a panel of B fits the first cache
constexpr std::int64_t kMostPacked = std::int64_t{4} << 20;  // elements
constexpr std::int64_t kBlockRows = 8 * kTileRows, kBlockColumns = 4 * kTileColumns;  // of C, a thread's unit

struct Product {
  std::int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0;
  bool transpose_a = false, transpose_b = false, one = false;

  Product(const Shape& a, const Shape& b, const Shape& c, const op::Attrs& attrs)
      : m(c.dim(-2)),
        n(c.dim(-1)),
        lda(a.dim(-1)),
        ldb(b.dim(-1)),
        transpose_a(attrs.get_bool("transpose_a")),
        transpose_b(attrs.get_bool("transpose_b")) {
    k = a.dim(transpose_a ? -2 : -1);
    std::int64_t batch = 1;
    for (int d = 0; d < c.rank() - 2; ++d) batch *= c[d];
    const bool one_right = !transpose_a && b.num_elems() == b.dim(-1) * b.dim(-2) && a.rank() == c.rank();
    one = batch == 1 || one_right;
    if (one) m *= batch;
  }
  std::int64_t a_panels() const { return (m + kTileRows - 1) / kTileRows; }
  std::int64_t b_panels() const { return (n + kTileColumns - 1) / kTileColumns; }
  // Of K, at a time: whole inner blocks.
  std::int64_t depth() const {
    const std::int64_t side = a_panels() * kTileRows + b_panels() * kTileColumns;
    const std::int64_t most = std::max<std::int64_t>(1, kMostPacked / side / kInner) * kInner;
    const std::int64_t blocks = (k + most - 1) / most;
    return std::min(((k + blocks - 1) / blocks + kInner - 1) / kInner * kInner,
                    (k + kInner - 1) / kInner * kInner);
  }
  std::int64_t packed_elems() const { return depth() * (a_panels() * kTileRows + b_panels() * kTileColumns); }
};

Product product_of(const op::KernelQuery& q) {
  return {q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs};
}

// [depth, width] of which `width` are lines of the operand: element (p, i) is at from[i * line + p * step].
// Lines that are not there are zeros.
void pack_panel(const float* from, std::int64_t line, std::int64_t step, std::int64_t lines,
                std::int64_t width, std::int64_t depth, float* to) {
  if (line == 1) {
    for (std::int64_t p = 0; p < depth; ++p) {
      std::memcpy(to + p * width, from + p * step, static_cast<std::size_t>(lines) * sizeof(float));
      for (std::int64_t i = lines; i < width; ++i) to[p * width + i] = 0;
    }
    return;
  }
  constexpr std::int64_t kRun = 32;
  for (std::int64_t begin = 0; begin < depth; begin += kRun) {
    const std::int64_t end = std::min(begin + kRun, depth);
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t p = begin; p < end; ++p) to[p * width + i] = i < lines ? from[i * line + p] : 0;
  }
}

// The packed blocks [begin, begin + depth) of K, panel after panel, inner block after inner block within.
struct Packed {
  float *a, *b;
  std::int64_t depth;
};

void pack(op::Parallel& parallel, const Product& p, const float* a, const float* b, std::int64_t begin,
          const Packed& to) {
  const std::int64_t panels = p.a_panels() + p.b_panels();
  const int slices = num_slices(panels, to.depth * (p.m + p.n), parallel.width());
  for_slices(parallel, panels, slices, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const bool left = i < p.a_panels();
      const std::int64_t width = left ? kTileRows : kTileColumns, panel = left ? i : i - p.a_panels(),
                         at = panel * width, lines = std::min(width, (left ? p.m : p.n) - at),
                         ld = left ? p.lda : p.ldb;
      const bool by_lines = left ? !p.transpose_a : p.transpose_b;  // lines are rows in memory
      const float* const from = (left ? a : b) + (by_lines ? at * ld + begin : begin * ld + at);
      pack_panel(from, by_lines ? ld : 1, by_lines ? 1 : ld, lines, width, to.depth,
                 (left ? to.a : to.b) + panel * width * to.depth);
    }
  });
}

// One unit of C: panels of it that are partly outside go through a tile of their own.
void multiply_block(const Product& p, const Packed& from, std::int64_t row, std::int64_t column, bool adds,
                    float* c) {
  float edge[kTileRows * kTileColumns];
  const std::int64_t rows = std::min(row + kBlockRows, p.m), columns = std::min(column + kBlockColumns, p.n);
  for (std::int64_t k = 0; k < from.depth; k += kInner) {
    const std::int64_t depth = std::min(kInner, from.depth - k);
    const bool more = adds || k > 0;
    for (std::int64_t j = column; j < columns; j += kTileColumns)
      for (std::int64_t i = row; i < rows; i += kTileRows) {
        const float *a = from.a + i * from.depth + k * kTileRows,
                    *b = from.b + j * from.depth + k * kTileColumns;
        float* const to = c + i * p.n + j;
        const std::int64_t height = std::min(kTileRows, rows - i),
                           width = std::min(kTileColumns, columns - j);
        if (height == kTileRows && width == kTileColumns) {
          product_tile(a, b, depth, more, to, p.n);
          continue;
        }
        product_tile(a, b, depth, false, edge, kTileColumns);
        for (std::int64_t y = 0; y < height; ++y)
          for (std::int64_t x = 0; x < width; ++x)
            to[y * p.n + x] = edge[y * kTileColumns + x] + (more ? to[y * p.n + x] : 0);
      }
  }
}

void run(op::KernelArgs& args) {
  const Product p(args.in(0).shape(), args.in(1).shape(), args.out(0).shape(), args.attrs);
  const float *a = f32_in(args, 0), *b = f32_in(args, 1);
  float* const c = f32_out(args, 0);
  auto* const packed = reinterpret_cast<float*>(args.workspace.data());
  const std::int64_t columns = (p.n + kBlockColumns - 1) / kBlockColumns,
                     units = (p.m + kBlockRows - 1) / kBlockRows * columns;
  for (std::int64_t k = 0; k < p.k; k += p.depth()) {
    const std::int64_t depth = std::min(p.depth(), p.k - k);
    const Packed block{packed, packed + p.a_panels() * kTileRows * depth, depth};
    pack(args.parallel, p, a, b, k, block);
    std::atomic<std::int64_t> next = 0;
    const auto width = static_cast<int>(std::min<std::int64_t>(args.parallel.width(), units));
    for_slices(args.parallel, width, width, [&](std::int64_t, std::int64_t, int) {
      for (;;) {
        const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= units) return;
        multiply_block(p, block, i / columns * kBlockRows, i % columns * kBlockColumns, k > 0, c);
      }
    });
  }
}

bool applicable(const op::KernelQuery& q) {
  if (!all_f32(q) || !fits_int32(q) || !has_product_tile()) return false;
  const Product p = product_of(q);
  // A unit for every thread, and enough of K that packing is little of it.
  const std::int64_t units =
      ((p.m + kBlockRows - 1) / kBlockRows) * ((p.n + kBlockColumns - 1) / kBlockColumns);
  return p.one && p.k >= kInner && p.m >= 2 * kBlockRows && p.n >= kBlockColumns && units >= 4 * q.width;
}

}  // namespace

const op::KernelRow kMatmulPacked{.op = "matmul",
                                  .name = "packed",
                                  .run = run,
                                  .applicable = applicable,
                                  .workspace_bytes = [](const op::KernelQuery& q) -> std::size_t {
                                    return static_cast<std::size_t>(product_of(q).packed_elems()) *
                                           sizeof(float);
                                  }};

}  // namespace trireme::kernel
