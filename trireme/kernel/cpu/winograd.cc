// The three convolutions of 3x3 filters by Winograd's F(4x4, 3x3): tiles of 4 x 4 outputs at a quarter of the
// products (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
//
//   forward       y  = A^T [ sum over c of (G g G^T) .* (B^T d B) ] A
//   input grad    the same with dy for x, the filter turned by 180 degrees and its channels exchanged
//   filter grad   dg = G^T [ sum over tiles of (A dy A^T) .* (B^T d B) ] G, the adjoint of the first in g
//
// The sums are 36 matrix products, one per component. Work goes in three steps over a block of tile rows of
// all images, every step on all threads: transform (16 channels at a time, winograd_loops.h), multiply,
// transform back. So the transformed filter is there once, however many threads there are, and the block
// bounds the rest.
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/conv_shape.h"
#include "trireme/kernel/cpu/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/winograd_loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

constexpr std::int64_t kTile = 4;

std::int64_t whole_pixels(std::int64_t channels) { return (channels + kPixel - 1) / kPixel * kPixel; }

// One side of the products: planes [n, channels, h, w], transformed from frames of `rows` x `width` places.
struct Side {
  std::int64_t channels, h, w;
  std::int64_t pad_h, pad_w;
  std::int64_t frame_rows, frame_width;

  std::int64_t padded() const { return whole_pixels(channels); }
  std::int64_t blocks() const { return padded() / kPixel; }
};

// x is transformed, with w the filter or the other way round; y is what has oh x ow places.
struct Layout {
  Layout(const ConvShape& s, bool input_grad, int threads) : n(s.n), width(threads) {
    in = {s.c, s.h, s.w, s.pad_h, s.pad_w, 6, 0};
    out = {s.o, s.oh, s.ow, 0, 0, kTile, 0};
    if (input_grad) {
      in = {s.o, s.oh, s.ow, 2 - s.pad_h, 2 - s.pad_w, 6, 0};
      out = {s.c, s.h, s.w, 0, 0, kTile, 0};
    }
    tile_rows = (out.h + kTile - 1) / kTile;
    tiles = (out.w + kTile - 1) / kTile;
    in.frame_width = tiles * kTile + 2;
    out.frame_width = tiles * kTile;
    filter_elems = kComponents * in.padded() * out.padded();
    const std::int64_t per_row = kComponents * tiles * (in.padded() + out.padded());
    // Large enough to pay for going through the filters once more.
    const std::int64_t budget = std::max(kBlockElems * width, filter_elems / 2);
    const std::int64_t all = n * tile_rows, most = std::clamp<std::int64_t>(budget / per_row, 1, all);
    const std::int64_t num_blocks = (all + most - 1) / most;
    rows = (all + num_blocks - 1) / num_blocks;
  }

  std::int64_t positions() const { return rows * tiles; }  // of a full block
  std::int64_t frame_elems() const {
    return (in.frame_rows * in.frame_width + std::max(in.frame_rows * in.w, kTile * out.w)) * kPixel;
  }
  std::size_t bytes() const {
    const std::int64_t elems =
        filter_elems + kComponents * positions() * (in.padded() + out.padded()) + width * frame_elems();
    return static_cast<std::size_t>(elems) * sizeof(float);
  }

  static constexpr std::int64_t kBlockElems = std::int64_t{1} << 20;  // per thread: 4 MiB

  std::int64_t n;
  int width;
  Side in{}, out{};
  std::int64_t tile_rows = 0, tiles = 0;  // per image; per tile row
  std::int64_t filter_elems = 0;
  std::int64_t rows = 0;  // tile rows of a block, of whichever images
};

// The workspace: filters, transformed inputs and outputs of a block, one frame per thread.
struct Memory {
  Memory(const Layout& l, op::KernelArgs& args)
      : filters(reinterpret_cast<float*>(args.workspace.data())),
        in(filters + l.filter_elems),
        out(in + kComponents * l.positions() * l.in.padded()),
        frames(out + kComponents * l.positions() * l.out.padded()) {}
  float *filters, *in, *out, *frames;
};

// Slices for `items` of 36 components of 16 channels of a row of tiles.
int slices_for(const Layout& l, std::int64_t items) {
  return num_slices(items, items * l.tiles * kComponents * kPixel, l.width);
}

// Places [first, first + frame_rows) of one image's 16 channels, with zeros around them.
void fill_frame(const Side& s, const float* image, std::int64_t block, std::int64_t first, float* frame) {
  float* const run = frame + s.frame_rows * s.frame_width * kPixel;
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, s.h);
  const std::int64_t end = std::clamp<std::int64_t>(first + s.frame_rows, begin, s.h);
  const std::int64_t channels = std::min(kPixel, s.channels - block * kPixel), plane = s.h * s.w;
  winograd_loops().gather(image + block * kPixel * plane + begin * s.w, plane, channels, (end - begin) * s.w,
                          run);
  const auto bytes = [](std::int64_t pixels) {
    return static_cast<std::size_t>(pixels * kPixel) * sizeof(float);
  };
  for (std::int64_t r = 0; r < s.frame_rows; ++r) {
    float* const row = frame + r * s.frame_width * kPixel;
    const std::int64_t at = first + r;
    if (at < begin || at >= end) {
      std::memset(row, 0, bytes(s.frame_width));
      continue;
    }
    const std::int64_t used = std::min(s.w, s.frame_width - s.pad_w);
    std::memset(row, 0, bytes(s.pad_w));
    std::memcpy(row + s.pad_w * kPixel, run + (at - begin) * s.w * kPixel, bytes(used));
    std::memset(row + (s.pad_w + used) * kPixel, 0, bytes(s.frame_width - s.pad_w - used));
  }
}

using Transform = void (*)(const float*, std::int64_t, std::int64_t, float*, std::int64_t, std::int64_t);

// Tile rows [begin, end) of all images -> [36][positions][channels].
void transform(const Layout& l, const Side& s, Transform how, const float* planes, std::int64_t begin,
               std::int64_t end, float* to, float* frames, op::Parallel& parallel) {
  const std::int64_t items = (end - begin) * s.blocks(), stride = (end - begin) * l.tiles * s.padded();
  for_slices(parallel, items, slices_for(l, items), [&](std::int64_t first, std::int64_t last, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks();
      fill_frame(s, planes + row / l.tile_rows * s.channels * s.h * s.w, block,
                 row % l.tile_rows * kTile - s.pad_h, frame);
      how(frame, s.frame_width, l.tiles, to + (row - begin) * l.tiles * s.padded() + block * kPixel,
          s.padded(), stride);
    }
  });
}

// [36][positions][channels] -> tile rows [begin, end) of y.
void finish(const Layout& l, const float* from, std::int64_t begin, std::int64_t end, float* y, float* frames,
            op::Parallel& parallel) {
  const Side& s = l.out;
  const std::int64_t items = (end - begin) * s.blocks(), stride = (end - begin) * l.tiles * s.padded();
  for_slices(parallel, items, slices_for(l, items), [&](std::int64_t first, std::int64_t last, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    float* const run = frame + kTile * s.frame_width * kPixel;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks(), at = row % l.tile_rows * kTile;
      winograd_loops().result(from + (row - begin) * l.tiles * s.padded() + block * kPixel, s.padded(),
                              stride, l.tiles, frame, s.frame_width);
      const std::int64_t valid = std::min(kTile, s.h - at), plane = s.h * s.w;
      for (std::int64_t r = 0; r < valid; ++r)
        std::memcpy(run + r * s.w * kPixel, frame + r * s.frame_width * kPixel,
                    static_cast<std::size_t>(s.w * kPixel) * sizeof(float));
      winograd_loops().scatter(run, valid * s.w,
                               y + (row / l.tile_rows * s.channels + block * kPixel) * plane + at * s.w,
                               plane, std::min(kPixel, s.channels - block * kPixel));
    }
  });
}

// How a filter [o, c, 3, 3] lies for products of `from` channels with `to` channels.
struct FilterView {
  std::int64_t from_stride, to_stride;
  bool turned;
  std::int64_t tap(std::int64_t i) const { return turned ? 8 - i : i; }
};

// Filters to [36][from][to] or back.
template <bool kBack, typename Float>
void move_filters(const Layout& l, const FilterView& v, Float* filter, float* moved, op::Parallel& parallel) {
  const std::int64_t from = l.in.channels, to = l.out.channels, to_padded = l.out.padded();
  const std::int64_t blocks = l.out.blocks(), items = blocks * from;
  for_slices(parallel, items, num_slices(items, items * kComponents * kPixel, l.width),
             [&](std::int64_t first, std::int64_t last, int) {
               float taps[9 * kPixel];
               for (std::int64_t i = first; i < last; ++i) {
                 const std::int64_t block = i / from, c = i % from,
                                    lanes = std::min(kPixel, to - block * kPixel);
                 float* const at = moved + c * to_padded + block * kPixel;
                 Float* const own = filter + c * v.from_stride + block * kPixel * v.to_stride;
                 if constexpr (kBack) {
                   winograd_loops().filter_back(at, from * to_padded, taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < 9; ++t)
                       own[lane * v.to_stride + v.tap(t)] = taps[t * kPixel + lane];
                 } else {
                   std::memset(taps, 0, sizeof taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < 9; ++t)
                       taps[t * kPixel + lane] = own[lane * v.to_stride + v.tap(t)];
                   winograd_loops().filter(taps, at, from * to_padded);
                 }
               }
             });
}

// Calls product(component, begin, end) for parts of [0, size): 36 alone do not divide well by many threads.
template <typename Fn>
void for_products(const Layout& l, std::int64_t size, const Fn& product, op::Parallel& parallel) {
  const int parts = l.width <= 4 ? 1 : 4;
  const std::int64_t items = kComponents * parts;
  for_slices(parallel, items, static_cast<int>(std::min<std::int64_t>(items, l.width)),
             [&](std::int64_t first, std::int64_t last, int) {
               for (std::int64_t i = first; i < last; ++i) {
                 const SliceRange part = slice_range(size, parts, static_cast<int>(i % parts));
                 if (part.begin < part.end) product(i / parts, part.begin, part.end);
               }
             });
}

void convolve(const Layout& l, const FilterView& view, const float* x, const float* filter, float* y,
              op::KernelArgs& args) {
  const Memory m(l, args);
  const std::int64_t k = l.in.padded(), n = l.out.padded(), all = l.n * l.tile_rows;
  move_filters<false>(l, view, filter, m.filters, args.parallel);
  for (std::int64_t begin = 0; begin < all; begin += l.rows) {
    const std::int64_t end = std::min(begin + l.rows, all), positions = (end - begin) * l.tiles;
    transform(l, l.in, winograd_loops().data, x, begin, end, m.in, m.frames, args.parallel);
    for_products(
        l, positions,
        [&](std::int64_t component, std::int64_t first, std::int64_t last) {
          gemm({.m = last - first,
                .n = l.out.channels,
                .k = l.in.channels,
                .a = m.in + (component * positions + first) * k,
                .lda = k,
                .b = m.filters + component * l.in.channels * n,
                .ldb = n,
                .beta = 0,
                .c = m.out + (component * positions + first) * n,
                .ldc = n});
        },
        args.parallel);
    finish(l, m.out, begin, end, y, m.frames, args.parallel);
  }
}

// ---- Rows
// -----------------------------------------------------------------------------------------------------------
template <ShapeOfOp kShape>
bool applicable(const op::KernelQuery& q) {
  if (!all_f32(q) || !fits_int32(q) || !gemm_usable() || !method_allows(q.attrs, "winograd")) return false;
  const ConvShape s = kShape(q.inputs, q.outputs, q.attrs);
  return s.macs() > 0 && s.kh == 3 && s.kw == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.groups == 1 && s.pad_h <= 2 && s.pad_w <= 2;
}

template <ShapeOfOp kShape, bool kInputGrad>
std::size_t workspace_bytes(const op::KernelQuery& q) {
  return Layout(kShape(q.inputs, q.outputs, q.attrs), kInputGrad, q.width).bytes();
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

void forward(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(forward_shape, args);
  convolve(Layout(s, false, args.parallel.width()), {9, s.c * 9, false}, f32_in(args, 0), f32_in(args, 1),
           f32_out(args, 0), args);
}

void input_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(input_grad_shape, args);
  convolve(Layout(s, true, args.parallel.width()), {s.c * 9, 9, true}, f32_in(args, 1), f32_in(args, 0),
           f32_out(args, 0), args);
}

void filter_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(filter_grad_shape, args);
  const Layout l(s, false, args.parallel.width());
  const Memory m(l, args);
  const std::int64_t k = l.in.padded(), n = l.out.padded(), all = l.n * l.tile_rows;
  for (std::int64_t begin = 0; begin < all; begin += l.rows) {
    const std::int64_t end = std::min(begin + l.rows, all), positions = (end - begin) * l.tiles;
    transform(l, l.in, winograd_loops().data, f32_in(args, 0), begin, end, m.in, m.frames, args.parallel);
    transform(l, l.out, winograd_loops().spread, f32_in(args, 1), begin, end, m.out, m.frames, args.parallel);
    for_products(
        l, l.in.channels,
        [&](std::int64_t component, std::int64_t first, std::int64_t last) {
          gemm({.transpose_a = true,
                .m = last - first,
                .n = l.out.channels,
                .k = positions,
                .a = m.in + component * positions * k + first,
                .lda = k,
                .b = m.out + component * positions * n,
                .ldb = n,
                .beta = begin == 0 ? 0.0F : 1.0F,
                .c = m.filters + (component * l.in.channels + first) * n,
                .ldc = n});
        },
        args.parallel);
  }
  move_filters<true>(l, {9, s.c * 9, false}, f32_out(args, 0), m.filters, args.parallel);
}

template <ShapeOfOp kShape, bool kInputGrad>
constexpr op::KernelRow row(const char* op, op::KernelFn run) {
  return {.op = op,
          .name = "winograd",
          .run = run,
          .applicable = applicable<kShape>,
          .workspace_bytes = workspace_bytes<kShape, kInputGrad>,
          .prepare = prepare};
}

}  // namespace

constinit const op::KernelRow kConv2dWinograd = row<forward_shape, false>("conv2d", forward);
constinit const op::KernelRow kConv2dInputGradWinograd =
    row<input_grad_shape, true>("conv2d_input_grad", input_grad);
constinit const op::KernelRow kConv2dFilterGradWinograd =
    row<filter_grad_shape, false>("conv2d_filter_grad", filter_grad);

}  // namespace trireme::kernel
