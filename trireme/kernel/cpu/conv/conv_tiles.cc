// conv2d and its input gradient of bf16 images with the channels last as products on the
// processor's AMX tiles (simd/tiles.h; where it has none, oneDNN is faster): the pixels of a block of results
// under every tap, [pixels, taps * C], by the filter, sums in f32. Gradients of strided convolutions are left
// to others: most of their products are with zeros.
//
// The filter is packed into tiles once for all threads; blocks of pixels, and parts of the channels where
// there are few, go to whoever is free.
#include <algorithm>

#include "trireme/kernel/cpu/conv/conv_last.h"
#include "trireme/kernel/cpu/conv/tile_pixels.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using tiles::kElems;
using tiles::kPair;
using tiles::kSide;
using tiles::Low;
using tiles::MatrixBlock;

constexpr std::int64_t kBlock = TilePixels::kBlock;
constexpr std::int64_t kChunk = 16;  // tiles of depth that are packed at once

struct Layout {
  Layout(const ConvShape& shape, ConvKind how, int width)
      : s(shape),
        forth(how == ConvKind::kForward),
        from(forth ? TilePixels::of_input(shape) : TilePixels::of_gradient(shape)),
        places(s.n * from.oh * from.ow),
        channels(forth ? s.o : s.c),
        blocks(tiles::depths(channels)),
        column_blocks(from.column_blocks()),
        depth(from.units() * column_blocks) {
    constexpr std::int64_t kMost = 256, kLeast = 64, kMostBlocks = 16, kFewBlocks = 4;
    threads = num_slices(places, s.macs() / 32, width);
    const std::int64_t wanted = threads >= kManyThreads ? 3 * threads : threads;
    pixels = kMost;
    parts = (blocks + kMostBlocks - 1) / kMostBlocks;
    while (items() < wanted && blocks / parts >= 2 * kFewBlocks) parts *= 2;
    while (items() < wanted && pixels > kLeast) pixels /= 2;
  }

  std::int64_t items() const { return (places + pixels - 1) / pixels * parts; }
  std::int64_t row() const { return (blocks + parts - 1) / parts * kBlock; }  // of sums
  std::int64_t filter_elems() const { return blocks * depth * kPair; }
  std::int64_t left_elems() const { return pixels / kSide * kChunk * kElems; }
  std::int64_t own_bytes() const {
    return 2 * (left_elems() + from.staged_elems(pixels)) + 4 * pixels * row() +
           pixels * static_cast<std::int64_t>(sizeof(const Low*));
  }
  std::size_t bytes() const { return static_cast<std::size_t>(2 * filter_elems() + threads * own_bytes()); }

  ConvShape s;
  bool forth;
  TilePixels from;
  std::int64_t places, channels, blocks, column_blocks, depth;  // of the result; tiles of depth
  std::int64_t pixels = 0, parts = 1;                           // of an item; of the channels
  int threads = 1;
};

// What a thread has for itself.
struct Own {
  Own(const Layout& l, std::byte* memory)
      : sums(reinterpret_cast<float*>(memory)),
        left(reinterpret_cast<Low*>(sums + l.pixels * l.row())),
        staged(left + l.left_elems()),
        rows(reinterpret_cast<const Low**>(staged + l.from.staged_elems(l.pixels))) {}
  float* sums;         // [pixels][row]
  Low *left, *staged;  // left: 16 pixels, tile of the chunk
  const Low** rows;
};

// The filter [O, taps, C] as pairs of right tiles: block of the result's channels, then depth.
void pack_filter(const Layout& l, const Low* filter, std::int64_t block, Low* to) {
  const std::int64_t units = l.from.units(), columns = l.from.columns();
  to += block * l.depth * kPair;
  for (std::int64_t unit = 0; unit < units; ++unit)
    for (std::int64_t k = 0; k < l.column_blocks; ++k, to += kPair) {
      if (l.forth) {
        for (std::int64_t half = 0; half < 2; ++half) {
          const std::int64_t o = block * kBlock + half * kSide;
          tiles::load_turned(
              {filter + (o * units + unit) * columns + k * kBlock, units * columns,
               std::clamp<std::int64_t>(l.s.o - o, 0, kSide), std::min(kBlock, columns - k * kBlock)},
              to + half * kElems);
        }
        continue;
      }
      const auto piece = [&](std::int64_t o) {
        return MatrixBlock{filter + (o * units + unit) * l.s.c + block * kBlock, units * l.s.c,
                           std::clamp<std::int64_t>(l.s.o - o, 0, kSide),
                           std::min(kBlock, l.s.c - block * kBlock)};
      };
      tiles::load_pair(piece(k * kBlock), piece(k * kBlock + kSide), to);
    }
}

void run_item(const Layout& l, std::int64_t item, const Low* images, const Low* filter, Low* result,
              const Own& own) {
  const tiles::Units& units = *tiles::amx();
  const tiles::Scope scope(units);
  const SliceRange blocks =
      slice_range(l.blocks, static_cast<int>(l.parts), static_cast<int>(item % l.parts));
  const std::int64_t first = item / l.parts * l.pixels, last = std::min(first + l.pixels, l.places),
                     count = last - first, sides = tiles::sides(count);
  std::int64_t found = -1;  // the unit that own.rows are of
  for (std::int64_t begin = 0; begin < l.depth; begin += kChunk) {
    const std::int64_t chunk = std::min(kChunk, l.depth - begin);
    for (std::int64_t k = 0; k < chunk; ++k) {
      const std::int64_t unit = (begin + k) / l.column_blocks, at = (begin + k) % l.column_blocks * kBlock;
      if (unit != found) l.from.find(images, found = unit, first, last, own.staged, own.rows);
      for (std::int64_t side = 0; side < sides; ++side)
        tiles::load({own.rows + side * kSide, std::min(kSide, count - side * kSide), at,
                     std::min(kBlock, l.from.columns() - at)},
                    own.left + (side * kChunk + k) * kElems);
    }
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block)
      for (std::int64_t side = 0; side < sides; side += 2)
        units.multiply(own.left + side * kChunk * kElems, kChunk * kElems, side + 1 < sides ? 2 : 1,
                       filter + (block * l.depth + begin) * kPair, chunk, begin > 0,
                       own.sums + side * kSide * l.row() + (block - blocks.begin) * kBlock, l.row());
  }
  const std::int64_t channel = blocks.begin * kBlock, n = std::min(blocks.end * kBlock, l.channels) - channel;
  for (std::int64_t i = 0; i < count; ++i)
    vector_loops().f32_to_bf16(own.sums + i * l.row(), result + (first + i) * l.channels + channel, n);
}

struct State final : op::KernelState {
  explicit State(const Layout& layout) : l(layout) {}
  Layout l;
};

void run(op::KernelArgs& args) {
  const Layout& l = static_cast<const State&>(*args.state).l;
  const auto low = [&](int i) { return reinterpret_cast<const Low*>(args.in(i).raw()); };
  const Low *images = low(l.forth ? 0 : 1), *given = low(l.forth ? 1 : 0);
  auto* const filter = reinterpret_cast<Low*>(args.workspace.data());
  std::byte* const owns = args.workspace.data() + 2 * l.filter_elems();
  for_slices(args.parallel, l.blocks, num_slices(l.blocks, l.filter_elems(), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t block = begin; block < end; ++block) pack_filter(l, given, block, filter);
             });
  for_each_dynamic(args.parallel, l.items(), l.threads, [&](std::int64_t item, int slice) {
    run_item(l, item, images, filter, reinterpret_cast<Low*>(args.out(0).raw()),
             Own(l, owns + slice * l.own_bytes()));
  });
}

std::optional<LastConv> conv_of(const op::KernelQuery& q) {
  auto conv = LastConv::of(q, DType::kBF16, "im2col");
  if (!conv || tiles::amx() == nullptr || conv->kind == ConvKind::kFilterGrad) return {};
  const ConvShape& s = conv->shape;
  const bool strided = s.stride_h > 1 || s.stride_w > 1;
  const bool forth = conv->kind == ConvKind::kForward;
  if (s.groups != 1 || (forth ? s.c < kBlock && s.dilation_w != 1 : strided)) conv.reset();
  return conv;
}

Layout layout(const op::KernelQuery& q) {
  const auto conv = conv_of(q);
  return {conv->shape, conv->kind, q.width};
}

constexpr op::KernelRow tiles_row(const char* op) {
  return {.op = op,
          .name = "conv_tiles",
          .run = run,
          .applicable = [](const op::KernelQuery& q) { return conv_of(q).has_value(); },
          .workspace_bytes = [](const op::KernelQuery& q) { return layout(q).bytes(); },
          .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
            return std::make_unique<State>(layout(q));
          },
          .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kConv2dLastTiles = tiles_row("conv2d");
extern constinit const op::KernelRow kConv2dInputGradLastTiles = tiles_row("conv2d_input_grad");

}  // namespace trireme::kernel
