// matmul of bf16 matrices on AMX tiles (simd/tiles.h), sums in f32, rounded once. Formed: an f32
// product of bf16 operands (the gradient of a weight), and a bf16 product whose B is f32 (a weight), which is
// rounded where it is packed.
//
// The result is cut into parts over rows and columns, handed to whoever is free. A part goes through the
// whole depth in chunks: all its rows of A are packed into tiles that stay in the second cache, and columns
// of B a few blocks at a time, each of which stays in the first while it is multiplied with all rows. Sums
// wait in memory of the thread. Their order depends on the depth alone: the same bits at every width.
#include <limits>

#include "trireme/kernel/cpu/matmul/matmul_shape.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/tiles.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using tiles::kDepth, tiles::kElems, tiles::kPair, tiles::kSide, tiles::Low;

constexpr std::int64_t kBlock = 32;  // rows or columns that are multiplied at once
constexpr std::int64_t kChunk = 16;  // tiles of depth in a chunk
constexpr std::int64_t kRun = kChunk * kElems;

// Parts of `rows` x `columns` blocks.
struct Layout {
  Layout(const MatmulShape& product, bool f32_result, int width)
      : p(product), wide(f32_result), row_blocks(tiles::depths(p.m)), column_blocks(tiles::depths(p.n)) {
    constexpr std::int64_t kWorkPerElem = 64, kMostRows = 16, kMostColumns = 32;
    threads = num_slices(row_blocks * column_blocks, p.m * p.n * p.k / kWorkPerElem, width);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t r = std::min(kMostRows, row_blocks); r > 0; --r)
      for (std::int64_t c = std::min(kMostColumns, column_blocks); c > 0; --c) {
        const double cost = cost_of(r, c);
        if (fits(r, c) && cost < least) least = cost, rows = r, columns = c;
      }
  }

  // Packed rows and sums within the second cache.
  static bool fits(std::int64_t r, std::int64_t c) {
    constexpr std::int64_t kBytes = std::int64_t{1536} << 10;
    return r * kChunk * kPair * 2 + r * c * kBlock * kBlock * 4 <= kBytes;
  }

  // What the thread with most parts costs per tile of depth, in nanoseconds of one core: packing waits for
  // memory.
  // Where there are many threads one of them is likely to be held up for a part of a part.
  double cost_of(std::int64_t r, std::int64_t c) const {
    constexpr double kMultiply = 55, kPack = 140, kHeldUp = 0.3;
    const double left = kPack, right = p.rounds ? 2 * kPack : kPack;
    const std::int64_t parts = count(row_blocks, r) * count(column_blocks, c);
    const double turns =
        static_cast<double>((parts + threads - 1) / threads) + (threads >= kManyThreads ? kHeldUp : 0);
    return turns * (static_cast<double>(r * c) * kMultiply + static_cast<double>(r) * left +
                    static_cast<double>(c) * right);
  }
  static std::int64_t count(std::int64_t blocks, std::int64_t each) { return (blocks + each - 1) / each; }

  std::int64_t row_parts() const { return count(row_blocks, rows); }
  std::int64_t parts() const { return row_parts() * count(column_blocks, columns); }
  // Blocks of columns packed at once, lines of B side by side: more where there is room for them.
  std::int64_t group() const { return std::min<std::int64_t>(rows <= 4 ? 16 : 4, columns); }
  // Rows of sums do not all fall into the same sets of a cache.
  std::int64_t sum_stride() const { return columns * kBlock + kSide; }
  std::size_t own_bytes() const {
    return static_cast<std::size_t>((rows + group()) * kChunk * kPair * 2 + rows * kBlock * sum_stride() * 4);
  }
  std::size_t bytes() const { return own_bytes() * static_cast<std::size_t>(threads); }

  MatmulShape p;
  bool wide;  // the result is f32
  std::int64_t row_blocks, column_blocks;
  std::int64_t rows = 1, columns = 1;
  int threads = 1;
};

// What a thread packs, and sums of a part.
struct Own {
  Own(const Layout& l, std::byte* memory)
      : left(reinterpret_cast<Low*>(memory)),
        right(left + l.rows * kChunk * kPair),
        sums(reinterpret_cast<float*>(right + l.group() * kChunk * kPair)) {}
  Low *left, *right;
  float* sums;
};

// At most 16 rows and 32 columns of a matrix, from (row, column) on.
template <typename MatrixBlock, typename T>
MatrixBlock piece(const T* matrix, std::int64_t stride, std::int64_t row, std::int64_t column,
                  std::int64_t rows, std::int64_t columns) {
  return {matrix + row * stride + column, stride, std::min(kSide, rows - row),
          std::min(kDepth, columns - column)};
}

// Blocks [blocks) of rows of A, depth [first, last): two runs of tiles each.
void pack_left(const MatmulShape& p, const Low* a, SliceRange blocks, std::int64_t first, std::int64_t last,
               Low* to) {
  using tiles::MatrixBlock;
  if (p.transpose_a) {
    for (std::int64_t k = first; k < last; k += kDepth, to += kElems)
      for (std::int64_t b = blocks.begin; b < blocks.end; ++b)
        tiles::load_columns(piece<MatrixBlock>(a, p.m, k, b * kBlock, last, p.m),
                            piece<MatrixBlock>(a, p.m, k + kSide, b * kBlock, last, p.m),
                            to + (b - blocks.begin) * 2 * kRun, kRun);
    return;
  }
  for (std::int64_t row = blocks.begin * kBlock; row < std::min(blocks.end * kBlock, p.m); row += kSide) {
    for (std::int64_t k = first; k < last; k += kDepth)
      tiles::load(piece<MatrixBlock>(a, p.k, row, k, p.m, last), to + (k - first) / kDepth * kElems);
    to += kRun;
  }
}

// Blocks [blocks) of columns of B, likewise: a run of pairs each.
template <typename MatrixBlock, typename T>
void pack_right(const MatmulShape& p, const T* b, SliceRange blocks, std::int64_t first, std::int64_t last,
                Low* to) {
  if (p.transpose_b) {
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block, to += kChunk * kPair)
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t column = block * kBlock + half * kSide;
        for (std::int64_t k = first; k < last; k += kDepth)
          tiles::load_turned(piece<MatrixBlock>(b, p.k, column, k, p.n, last),
                             to + (k - first) / kDepth * kPair + half * kElems);
      }
    return;
  }
  for (std::int64_t k = first; k < last; k += kDepth, to += kPair)
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block)
      tiles::load_pair(piece<MatrixBlock>(b, p.n, k, block * kBlock, last, p.n),
                       piece<MatrixBlock>(b, p.n, k + kSide, block * kBlock, last, p.n),
                       to + (block - blocks.begin) * kChunk * kPair);
}

void write(const Layout& l, SliceRange rows, SliceRange columns, const float* sums, std::byte* c) {
  constexpr std::int64_t kCaches = std::int64_t{8} << 20;  // elements of f32
  const std::int64_t n = l.p.n, row = rows.begin * kBlock, column = columns.begin * kBlock,
                     height = std::min(rows.end * kBlock, l.p.m) - row,
                     width = std::min(columns.end * kBlock, n) - column, stride = l.sum_stride();
  auto* const wide = reinterpret_cast<float*>(c) + row * n + column;
  if (!l.wide)
    return tiles::round_rows(sums, stride, reinterpret_cast<Low*>(c) + row * n + column, n, height, width);
  if (l.p.m * n > kCaches) return tiles::copy_away(sums, stride, wide, n, height, width);
  for (std::int64_t i = 0; i < height; ++i) std::copy_n(sums + i * stride, width, wide + i * n);
}

void multiply_part(const Layout& l, std::int64_t part, const Low* a, const std::byte* b, std::byte* c,
                   const Own& own) {
  const tiles::Units& units = *tiles::amx();
  const tiles::Scope scope(units);
  const MatmulShape& p = l.p;
  // Threads that run at the same time read the same columns of B.
  const auto range = [](std::int64_t i, std::int64_t each, std::int64_t blocks) {
    return SliceRange{i * each, std::min((i + 1) * each, blocks)};
  };
  const SliceRange rows = range(part % l.row_parts(), l.rows, l.row_blocks),
                   columns = range(part / l.row_parts(), l.columns, l.column_blocks);
  for (std::int64_t first = 0; first < p.k; first += kChunk * kDepth) {
    const std::int64_t last = std::min(first + kChunk * kDepth, p.k), depth = tiles::depths(last - first);
    pack_left(p, a, rows, first, last, own.left);
    for (std::int64_t group = columns.begin; group < columns.end; group += l.group()) {
      const SliceRange some{group, std::min(group + l.group(), columns.end)};
      if (p.rounds)
        pack_right<tiles::WidePiece>(p, reinterpret_cast<const float*>(b), some, first, last, own.right);
      else
        pack_right<tiles::MatrixBlock>(p, reinterpret_cast<const Low*>(b), some, first, last, own.right);
      for (std::int64_t column = some.begin; column < some.end; ++column)
        for (std::int64_t row = rows.begin; row < rows.end; ++row)
          units.multiply_passing(
              own.left + (row - rows.begin) * 2 * kRun, kRun, p.m - row * kBlock > kSide ? 2 : 1,
              own.right + (column - some.begin) * kChunk * kPair, depth, first > 0,
              own.sums + (row - rows.begin) * kBlock * l.sum_stride() + (column - columns.begin) * kBlock,
              l.sum_stride());
    }
  }
  write(l, rows, columns, own.sums, c);
}

struct State final : op::KernelState {
  explicit State(const Layout& layout) : l(layout) {}
  Layout l;
};

Layout layout_of(const op::KernelQuery& q) {
  return {matmul_shape(q.inputs[0], q.inputs[1], q.outputs[0].shape, q.attrs),
          q.outputs[0].dtype == DType::kF32, q.width};
}

bool can_multiply(const op::KernelQuery& q) {
  constexpr std::int64_t kFew = std::int64_t{1} << 16;  // other rows have less to set up
  if (tiles::amx() == nullptr || tiles::avx512_bf16() == nullptr) return false;
  const MatmulShape p = matmul_shape(q.inputs[0], q.inputs[1], q.outputs[0].shape, q.attrs);
  return p.one && p.m * p.n * p.k >= kFew;
}

void run(op::KernelArgs& args) {
  const Layout& l = static_cast<const State&>(*args.state).l;
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  for_each_dynamic(args.parallel, l.parts(), l.threads, [&](std::int64_t part, int slice) {
    multiply_part(l, part, reinterpret_cast<const Low*>(args.in(0).raw()), args.in(1).raw(),
                  args.out(0).raw(),
                  Own(l, args.workspace.data() + static_cast<std::size_t>(slice) * l.own_bytes()));
  });
}

}  // namespace

extern const op::KernelRow kMatmulTiles{
    .op = "matmul",
    .name = "tiles",
    .run = run,
    .applicable = [](const op::KernelQuery& q) { return all_of_dtype(q, DType::kBF16) && can_multiply(q); },
    .workspace_bytes = [](const op::KernelQuery& q) { return layout_of(q).bytes(); },
    .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
      return std::make_unique<State>(layout_of(q));
    }};
extern const op::KernelRow kMatmulFormedTiles{
    .op = "matmul",
    .name = "product_tiles",
    .run = run,
    .applicable = [](const op::KernelQuery& q) { return is_bf16_product(q) && can_multiply(q); },
    .workspace_bytes = [](const op::KernelQuery& q) { return layout_of(q).bytes(); },
    .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
      return std::make_unique<State>(layout_of(q));
    },
    .takes = takes_formed};

}  // namespace trireme::kernel
