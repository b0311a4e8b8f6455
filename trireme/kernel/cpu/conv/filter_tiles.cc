// Filter gradients of bf16 images with the channels last as products on the processor's AMX
// tiles (simd/tiles.h; where it has none, oneDNN is faster): for every tap, dw [O, C] = dy^T x with the
// pixels of x under that tap (tile_pixels.h), sums in f32.
//
// Work is cut over taps, blocks of output channels and pixels, by shape and width; parts over pixels are
// added in their order. An item goes through its pixels in chunks: both sides are packed into tiles that stay
// in the cache, then multiplied.
#include <algorithm>

#include "trireme/kernel/cpu/conv/conv_last.h"
#include "trireme/kernel/cpu/conv/tile_pixels.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using tiles::kDepth;
using tiles::kElems;
using tiles::kPair;
using tiles::kSide;
using tiles::Low;
using tiles::MatrixBlock;

constexpr std::int64_t kBlock = TilePixels::kBlock;  // of channels of either side
constexpr std::int64_t kChunk = 16;                  // tiles of depth in a chunk
constexpr std::int64_t kPixels = kChunk * kDepth;
constexpr std::int64_t kMostBlocks = 8;  // of a side, packed at once

struct Layout {
  Layout(const ConvShape& shape, int width)
      : s(shape),
        from(TilePixels::of_input(shape)),
        pixels(s.n * s.oh * s.ow),
        units(from.units()),
        columns(from.columns()),
        o_blocks(tiles::depths(s.o)),
        column_blocks(from.column_blocks()) {
    threads = num_slices(units * o_blocks * pixels, s.macs() / 32, width);
    const std::int64_t wanted = threads >= kManyThreads ? 2 * threads : threads;
    constexpr std::int64_t kFewBlocks = 4, kMostFloats = std::int64_t{8} << 20;
    // Small gradients stay in the cache while dy is packed once for all taps.
    constexpr std::int64_t kSmall = std::int64_t{64} << 10;
    all_units = sum_elems() <= kSmall && pixels / (2 * kPixels) >= wanted;
    const std::int64_t apart = item_units();
    o_parts = std::clamp<std::int64_t>((wanted + apart - 1) / apart, 1,
                                       std::max<std::int64_t>(1, all_units ? 1 : o_blocks / kFewBlocks));
    o_parts = std::max(o_parts, (o_blocks + kMostBlocks - 1) / kMostBlocks);
    const std::int64_t others = apart * o_parts;
    const std::int64_t most =
        std::clamp<std::int64_t>(std::min(pixels / (2 * kPixels), kMostFloats / sum_elems()), 1, wanted);
    pixel_parts = std::clamp<std::int64_t>((wanted + others - 1) / others, 1, most);
  }

  std::int64_t items() const { return item_units() * o_parts * pixel_parts; }
  std::int64_t item_units() const { return all_units ? 1 : units; }  // items of the same pixels
  // A whole gradient, channels of both sides filled up: [o_blocks * 32][units][column_blocks * 32].
  std::int64_t row_elems() const { return units * column_blocks * kBlock; }
  std::int64_t sum_elems() const { return o_blocks * kBlock * row_elems(); }
  std::int64_t left_blocks() const { return (o_blocks + o_parts - 1) / o_parts; }
  std::int64_t staged_elems() const { return from.staged_elems(kPixels); }
  std::int64_t own_bytes() const {
    return 2 * ((left_blocks() + std::min(column_blocks, kMostBlocks)) * kChunk * kPair + staged_elems()) +
           kPixels * static_cast<std::int64_t>(sizeof(const Low*));
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(pixel_parts * sum_elems() * 4 + threads * own_bytes());
  }

  ConvShape s;
  TilePixels from;
  std::int64_t pixels, units, columns, o_blocks, column_blocks;
  bool all_units = false;  // an item has all taps
  std::int64_t o_parts = 1, pixel_parts = 1;
  int threads = 1;
};

// What a thread packs: runs of tiles of a chunk, block by block.
struct Own {
  Own(const Layout& l, std::byte* memory)
      : left(reinterpret_cast<Low*>(memory)),
        right(left + l.left_blocks() * kChunk * kPair),
        staged(right + std::min(l.column_blocks, kMostBlocks) * kChunk * kPair),
        rows(reinterpret_cast<const Low**>(staged + l.staged_elems())) {}
  Low *left, *right, *staged;
  const Low** rows;
};

void pack_left(const Layout& l, const Low* dy, std::int64_t block, std::int64_t first, std::int64_t last,
               Low* to) {
  const std::int64_t columns = std::min(kBlock, l.s.o - block * kBlock);
  const auto piece = [&](std::int64_t pixel) {
    const std::int64_t rows = std::clamp<std::int64_t>(last - pixel, 0, kSide);
    return MatrixBlock{dy + pixel * l.s.o + block * kBlock, l.s.o, rows, columns};
  };
  for (std::int64_t p = first; p < last; p += kDepth, to += kElems)
    tiles::load_columns(piece(p), piece(p + kSide), to, kChunk * kElems);
}

void pack_right(const Layout& l, const Own& own, std::int64_t block, std::int64_t pixels, Low* to) {
  const std::int64_t columns = std::min(kBlock, l.columns - block * kBlock);
  for (std::int64_t p = 0; p < pixels; p += kDepth, to += kPair)
    tiles::load_pair({own.rows + p, std::min(kDepth, pixels - p), block * kBlock, columns}, to);
}

void run_item(const Layout& l, std::int64_t item, const Low* x, const Low* dy, float* sums, const Own& own) {
  const tiles::Units& units = *tiles::amx();
  const tiles::Scope scope(units);
  const std::int64_t apart = l.item_units(), o_part = item / apart % l.o_parts,
                     part = item / (apart * l.o_parts);
  const SliceRange taps = l.all_units ? SliceRange{0, l.units} : SliceRange{item % apart, item % apart + 1};
  const SliceRange blocks = slice_range(l.o_blocks, static_cast<int>(l.o_parts), static_cast<int>(o_part));
  const SliceRange pixels = slice_range(l.pixels, static_cast<int>(l.pixel_parts), static_cast<int>(part));
  float* const sum = sums + part * l.sum_elems();
  for (std::int64_t first = pixels.begin; first < pixels.end; first += kPixels) {
    const std::int64_t last = std::min(first + kPixels, pixels.end), depth = tiles::depths(last - first);
    for (std::int64_t o = blocks.begin; o < blocks.end; ++o)
      pack_left(l, dy, o, first, last, own.left + (o - blocks.begin) * kChunk * kPair);
    for (std::int64_t unit = taps.begin; unit < taps.end; ++unit) {
      l.from.find(x, unit, first, last, own.staged, own.rows);
      for (std::int64_t group = 0; group < l.column_blocks; group += kMostBlocks) {
        const std::int64_t end = std::min(group + kMostBlocks, l.column_blocks);
        for (std::int64_t c = group; c < end; ++c)
          pack_right(l, own, c, last - first, own.right + (c - group) * kChunk * kPair);
        for (std::int64_t o = blocks.begin; o < blocks.end; ++o)
          for (std::int64_t c = group; c < end; ++c)
            units.multiply(own.left + (o - blocks.begin) * kChunk * kPair, kChunk * kElems, 2,
                           own.right + (c - group) * kChunk * kPair, depth, first != pixels.begin,
                           sum + o * kBlock * l.row_elems() + (unit * l.column_blocks + c) * kBlock,
                           l.row_elems());
      }
    }
  }
}

// Parts over pixels added in their order and rounded, some rows of the gradient.
void finish(const Layout& l, float* sums, std::int64_t begin, std::int64_t end, Low* dw) {
  for (std::int64_t o = begin; o < end; ++o) {
    float* const row = sums + o * l.row_elems();
    for (std::int64_t part = 1; part < l.pixel_parts; ++part)
      vector_loops().add(row, row + part * l.sum_elems(), row, l.row_elems());
    for (std::int64_t unit = 0; unit < l.units; ++unit)
      vector_loops().f32_to_bf16(row + unit * l.column_blocks * kBlock, dw + (o * l.units + unit) * l.columns,
                                 l.columns);
  }
}

struct State final : op::KernelState {
  explicit State(const Layout& layout) : l(layout) {}
  Layout l;
};

void run(op::KernelArgs& args) {
  const Layout& l = static_cast<const State&>(*args.state).l;
  const auto *x = reinterpret_cast<const Low*>(args.in(0).raw()),
             *dy = reinterpret_cast<const Low*>(args.in(1).raw());
  auto* const dw = reinterpret_cast<Low*>(args.out(0).raw());
  auto* const sums = reinterpret_cast<float*>(args.workspace.data());
  std::byte* const owns = args.workspace.data() + l.pixel_parts * l.sum_elems() * 4;
  for_each_dynamic(args.parallel, l.items(), l.threads, [&](std::int64_t item, int slice) {
    run_item(l, item, x, dy, sums, Own(l, owns + slice * l.own_bytes()));
  });
  for_slices(args.parallel, l.s.o, num_slices(l.s.o, l.pixel_parts * l.sum_elems(), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) { finish(l, sums, begin, end, dw); });
}

std::optional<LastConv> conv_of(const op::KernelQuery& q) {
  auto conv = LastConv::of(q, DType::kBF16, "im2col");
  if (!conv || tiles::amx() == nullptr || conv->kind != ConvKind::kFilterGrad) return {};
  const ConvShape& s = conv->shape;
  if (s.groups != 1 || (s.c < kBlock && s.dilation_w != 1)) conv.reset();
  return conv;
}

}  // namespace

extern const op::KernelRow kConv2dFilterGradLastTiles{
    .op = "conv2d_filter_grad",
    .name = "filter_tiles",
    .run = run,
    .applicable = [](const op::KernelQuery& q) { return conv_of(q).has_value(); },
    .workspace_bytes = [](const op::KernelQuery& q) { return Layout(conv_of(q)->shape, q.width).bytes(); },
    .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
      return std::make_unique<State>(Layout(conv_of(q)->shape, q.width));
    },
    .takes = takes_channels_last};

}  // namespace trireme::kernel
