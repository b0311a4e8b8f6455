// The three convolutions of 3x3 and 5x5 filters by Winograd's F(4x4, 3x3) and F(4x4, 5x5): tiles of 4 x 4
// outputs at a quarter and a sixth of the products (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016).
//
//   forward       y  = A^T [ sum over c of (G g G^T) .* (B^T d B) ] A
//   input grad    the same with dy for x, the filter turned by 180 degrees and its channels exchanged
//   filter grad   dg = G^T [ sum over tiles of (A dy A^T) .* (B^T d B) ] G, the adjoint of the first in g
//
// The sums are 36 or 64 matrix products, one per component. Work goes in three steps over a block of tile
// rows of all images: transform (16 channels at a time, winograd_loops.h), multiply, transform back. Where
// the transformed filter is large every step goes over all threads, so that it is there once, however many
// threads there are; where it is small each thread takes blocks of its own, which stay in its cache.
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/conv_shape.h"
#include "trireme/kernel/cpu/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/winograd_loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

constexpr std::int64_t kTile = 4;
constexpr std::int64_t kMostTaps = 25;

enum class ConvPass { kForward, kInputGrad, kFilterGrad };

std::int64_t whole_pixels(std::int64_t channels) { return (channels + kPixel - 1) / kPixel * kPixel; }

// One side of the products: planes [n, channels, h, w], transformed from frames of `rows` x `width` places.
struct Side {
  std::int64_t channels = 0, h = 0, w = 0;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t frame_rows = 0, frame_width = 0;

  std::int64_t padded() const { return whole_pixels(channels); }
  std::int64_t blocks() const { return padded() / kPixel; }
};

// x is transformed, with w the filter or the other way round; y is what has oh x ow places.
struct Layout {
  Layout(const ConvShape& s, ConvPass pass, int threads)
      : loops(&winograd_loops(s.kh)), components(loops->side * loops->side), n(s.n) {
    const std::int64_t reach = loops->taps - 1;
    in = {s.c, s.h, s.w, s.pad_h, s.pad_w, loops->side, 0};
    out = {s.o, s.oh, s.ow, 0, 0, kTile, 0};
    if (pass == ConvPass::kInputGrad) {
      in = {s.o, s.oh, s.ow, reach - s.pad_h, reach - s.pad_w, loops->side, 0};
      out = {s.c, s.h, s.w, 0, 0, kTile, 0};
    }
    tile_rows = (out.h + kTile - 1) / kTile;
    tiles = (out.w + kTile - 1) / kTile;
    in.frame_width = tiles * kTile + reach;
    out.frame_width = tiles * kTile;
    filter_elems = components * in.padded() * out.padded();
    const std::int64_t per_row = components * tiles * (in.padded() + out.padded()), all = n * tile_rows;
    const bool alone = filter_elems <= kSmallFilter;
    team = alone ? 1 : threads;
    walks = alone ? num_slices(all, all * per_row, threads) : 1;
    filters = pass == ConvPass::kFilterGrad ? walks : 1;
    // Together: large enough to pay for going through the filters once more.
    const std::int64_t budget = alone ? kOwnElems : std::max(kBlockElems * team, filter_elems / 2);
    const std::int64_t share = (all + walks - 1) / walks;
    const std::int64_t most = std::clamp<std::int64_t>(budget / per_row, 1, share);
    const std::int64_t num_blocks = (share + most - 1) / most;
    rows = (share + num_blocks - 1) / num_blocks;
  }

  std::int64_t positions() const { return rows * tiles; }  // of a full block
  std::int64_t frame_elems() const {
    return (in.frame_rows * in.frame_width + std::max(in.frame_rows * in.w, kTile * out.w)) * kPixel;
  }
  std::int64_t walk_elems() const {
    return components * positions() * (in.padded() + out.padded()) + team * frame_elems();
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(filters * filter_elems + walks * walk_elems()) * sizeof(float);
  }

  static constexpr std::int64_t kBlockElems = std::int64_t{1} << 20;     // per thread: 4 MiB
  static constexpr std::int64_t kSmallFilter = std::int64_t{256} << 10;  // half of a usual L2 cache
  static constexpr std::int64_t kOwnElems = std::int64_t{192} << 10;

  const WinogradLoops* loops;
  std::int64_t components, n;
  Side in, out;
  std::int64_t tile_rows = 0, tiles = 0;  // per image; per tile row
  std::int64_t filter_elems = 0;
  int team = 1, walks = 1, filters = 1;  // threads of a walk over blocks; such walks at once; filters or sums
  std::int64_t rows = 0;                 // tile rows of a block, of whichever images
};

// The workspace: filters, then for every walk transformed inputs and outputs of a block, one frame per
// thread.
struct Memory {
  Memory(const Layout& l, const op::KernelArgs& args, int walk)
      : filters(reinterpret_cast<float*>(args.workspace.data()) + (walk % l.filters) * l.filter_elems),
        in(reinterpret_cast<float*>(args.workspace.data()) + l.filters * l.filter_elems +
           walk * l.walk_elems()),
        out(in + l.components * l.positions() * l.in.padded()),
        frames(out + l.components * l.positions() * l.out.padded()) {}
  float *filters, *in, *out, *frames;
};

// Calls fn(begin, end, memory, parallel) for the tile rows of every walk, with the threads that it has; where
// there are no sums to keep apart, for every block.
template <typename Fn>
void for_walks(const Layout& l, const op::KernelArgs& args, bool sums, const Fn& fn) {
  const std::int64_t all = l.n * l.tile_rows;
  if (l.team > 1) return fn(std::int64_t{0}, all, Memory(l, args, 0), args.parallel);
  if (!sums) {
    for_free(args.parallel, (all + l.rows - 1) / l.rows, l.walks, [&](std::int64_t i, int walk) {
      fn(i * l.rows, std::min((i + 1) * l.rows, all), Memory(l, args, walk), op::serial());
    });
    return;
  }
  for_slices(args.parallel, all, l.walks, [&](std::int64_t begin, std::int64_t end, int walk) {
    fn(begin, end, Memory(l, args, walk), op::serial());
  });
}

// Slices for `items` of all components of 16 channels of a row of tiles.
int slices_for(const Layout& l, std::int64_t items) {
  return num_slices(items, items * l.tiles * l.components * kPixel, l.team);
}

// Places [first, first + frame_rows) of one image's 16 channels, with zeros around them.
void fill_frame(const WinogradLoops& loops, const Side& s, const float* image, std::int64_t block,
                std::int64_t first, float* frame) {
  float* const run = frame + s.frame_rows * s.frame_width * kPixel;
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, s.h);
  const std::int64_t end = std::clamp<std::int64_t>(first + s.frame_rows, begin, s.h);
  const std::int64_t channels = std::min(kPixel, s.channels - block * kPixel), plane = s.h * s.w;
  loops.gather(image + block * kPixel * plane + begin * s.w, plane, channels, (end - begin) * s.w, run);
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

// Tile rows [begin, end) of all images -> [components][positions][channels].
void transform(const Layout& l, const Side& s, Transform how, const float* planes, std::int64_t begin,
               std::int64_t end, float* to, float* frames, op::Parallel& parallel) {
  const std::int64_t items = (end - begin) * s.blocks(), stride = (end - begin) * l.tiles * s.padded();
  for_free(parallel, items, slices_for(l, items), [&](std::int64_t i, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks();
    fill_frame(*l.loops, s, planes + row / l.tile_rows * s.channels * s.h * s.w, block,
               row % l.tile_rows * kTile - s.pad_h, frame);
    how(frame, s.frame_width, l.tiles, to + (row - begin) * l.tiles * s.padded() + block * kPixel, s.padded(),
        stride);
  });
}

// [components][positions][channels] -> tile rows [begin, end) of y.
void finish(const Layout& l, const float* from, std::int64_t begin, std::int64_t end, float* y, float* frames,
            op::Parallel& parallel) {
  const Side& s = l.out;
  const std::int64_t items = (end - begin) * s.blocks(), stride = (end - begin) * l.tiles * s.padded();
  for_free(parallel, items, slices_for(l, items), [&](std::int64_t i, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    float* const run = frame + kTile * s.frame_width * kPixel;
    const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks(), at = row % l.tile_rows * kTile;
    l.loops->result(from + (row - begin) * l.tiles * s.padded() + block * kPixel, s.padded(), stride, l.tiles,
                    frame, s.frame_width);
    const std::int64_t valid = std::min(kTile, s.h - at), plane = s.h * s.w;
    for (std::int64_t r = 0; r < valid; ++r)
      std::memcpy(run + r * s.w * kPixel, frame + r * s.frame_width * kPixel,
                  static_cast<std::size_t>(s.w * kPixel) * sizeof(float));
    l.loops->scatter(run, valid * s.w,
                     y + (row / l.tile_rows * s.channels + block * kPixel) * plane + at * s.w, plane,
                     std::min(kPixel, s.channels - block * kPixel));
  });
}

// How a filter [o, c, taps, taps] lies for products of `from` channels with `to` channels.
struct FilterView {
  std::int64_t from_stride, to_stride;
  std::int64_t area;  // taps x taps
  bool turned = false;
  std::int64_t tap(std::int64_t i) const { return turned ? area - 1 - i : i; }
};

// Filters to [components][from][to] or back.
template <bool kBack, typename Float>
void move_filters(const Layout& l, const FilterView& v, Float* filter, float* moved, op::Parallel& parallel) {
  const std::int64_t from = l.in.channels, to = l.out.channels, to_padded = l.out.padded();
  const std::int64_t blocks = l.out.blocks(), items = blocks * from;
  for_slices(parallel, items, num_slices(items, items * l.components * kPixel, parallel.width()),
             [&](std::int64_t first, std::int64_t last, int) {
               float taps[kMostTaps * kPixel];
               for (std::int64_t i = first; i < last; ++i) {
                 const std::int64_t block = i / from, c = i % from,
                                    lanes = std::min(kPixel, to - block * kPixel);
                 float* const at = moved + c * to_padded + block * kPixel;
                 Float* const own = filter + c * v.from_stride + block * kPixel * v.to_stride;
                 if constexpr (kBack) {
                   l.loops->filter_back(at, from * to_padded, taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < v.area; ++t)
                       own[lane * v.to_stride + v.tap(t)] = taps[t * kPixel + lane];
                 } else {
                   std::memset(taps, 0, sizeof taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < v.area; ++t)
                       taps[t * kPixel + lane] = own[lane * v.to_stride + v.tap(t)];
                   l.loops->filter(taps, at, from * to_padded);
                 }
               }
             });
}

// Calls product(component, begin, end) for parts of [0, size): their number alone does not divide well.
template <typename Fn>
void for_products(const Layout& l, std::int64_t size, const Fn& product, op::Parallel& parallel) {
  const int parts = l.team <= 4 ? 1 : 4;
  const std::int64_t items = l.components * parts;
  for_free(parallel, items, static_cast<int>(std::min<std::int64_t>(items, l.team)),
           [&](std::int64_t i, int) {
             const SliceRange part = slice_range(size, parts, static_cast<int>(i % parts));
             if (part.begin < part.end) product(i / parts, part.begin, part.end);
           });
}

// Columns of missing channels are zero in b, so that they may be multiplied or not.
void multiply(const Layout& l, const SmallProduct& p) {
  if (l.team == 1 && l.loops->product != nullptr) return l.loops->product(p);
  const bool turned = p.a_row == 1 && p.a_step != 1;
  gemm({.transpose_a = turned,
        .m = p.m,
        .n = l.out.channels,
        .k = p.k,
        .a = p.a,
        .lda = turned ? p.a_step : p.a_row,
        .b = p.b,
        .ldb = p.n,
        .beta = p.add ? 1.0F : 0.0F,
        .c = p.c,
        .ldc = p.n});
}

void convolve(const Layout& l, const FilterView& view, const float* x, const float* filter, float* y,
              op::KernelArgs& args) {
  const std::int64_t k = l.in.padded(), n = l.out.padded();
  move_filters<false>(l, view, filter, Memory(l, args, 0).filters, args.parallel);
  const auto walk = [&](std::int64_t first_row, std::int64_t last_row, const Memory& m,
                        op::Parallel& parallel) {
    for (std::int64_t begin = first_row; begin < last_row; begin += l.rows) {
      const std::int64_t end = std::min(begin + l.rows, last_row), positions = (end - begin) * l.tiles;
      transform(l, l.in, l.loops->data, x, begin, end, m.in, m.frames, parallel);
      for_products(
          l, positions,
          [&](std::int64_t component, std::int64_t first, std::int64_t last) {
            multiply(l, {.m = last - first,
                         .n = n,
                         .k = l.in.channels,
                         .a = m.in + (component * positions + first) * k,
                         .a_row = k,
                         .a_step = 1,
                         .b = m.filters + component * l.in.channels * n,
                         .add = false,
                         .c = m.out + (component * positions + first) * n});
          },
          parallel);
      finish(l, m.out, begin, end, y, m.frames, parallel);
    }
  };
  for_walks(l, args, false, walk);
}

// ---- Rows
// -----------------------------------------------------------------------------------------------------------
template <ShapeOfOp kShape>
bool applicable(const op::KernelQuery& q) {
  if (!all_f32(q) || !fits_int32(q) || !gemm_usable() || !method_allows(q.attrs, "winograd")) return false;
  const ConvShape s = kShape(q.inputs, q.outputs, q.attrs);
  return s.macs() > 0 && (s.kh == 3 || s.kh == 5) && s.kw == s.kh && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.groups == 1 && s.pad_h < s.kh && s.pad_w < s.kw;
}

template <ShapeOfOp kShape, ConvPass kPass>
std::size_t workspace_bytes(const op::KernelQuery& q) {
  return Layout(kShape(q.inputs, q.outputs, q.attrs), kPass, q.width).bytes();
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

void forward(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(forward_shape, args);
  convolve(Layout(s, ConvPass::kForward, args.parallel.width()),
           {s.kh * s.kw, s.c * s.kh * s.kw, s.kh * s.kw}, f32_in(args, 0), f32_in(args, 1), f32_out(args, 0),
           args);
}

void input_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(input_grad_shape, args);
  convolve(Layout(s, ConvPass::kInputGrad, args.parallel.width()),
           {s.c * s.kh * s.kw, s.kh * s.kw, s.kh * s.kw, true}, f32_in(args, 1), f32_in(args, 0),
           f32_out(args, 0), args);
}

void filter_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(filter_grad_shape, args);
  const Layout l(s, ConvPass::kFilterGrad, args.parallel.width());
  const std::int64_t k = l.in.padded(), n = l.out.padded();
  const auto walk = [&](std::int64_t first_row, std::int64_t last_row, const Memory& m,
                        op::Parallel& parallel) {
    for (std::int64_t begin = first_row; begin < last_row; begin += l.rows) {
      const std::int64_t end = std::min(begin + l.rows, last_row), positions = (end - begin) * l.tiles;
      transform(l, l.in, l.loops->data, f32_in(args, 0), begin, end, m.in, m.frames, parallel);
      transform(l, l.out, l.loops->spread, f32_in(args, 1), begin, end, m.out, m.frames, parallel);
      for_products(
          l, l.in.channels,
          [&](std::int64_t component, std::int64_t first, std::int64_t last) {
            multiply(l, {.m = last - first,
                         .n = n,
                         .k = positions,
                         .a = m.in + component * positions * k + first,
                         .a_row = 1,
                         .a_step = k,
                         .b = m.out + component * positions * n,
                         .add = begin != first_row,
                         .c = m.filters + (component * l.in.channels + first) * n});
          },
          parallel);
    }
  };
  for_walks(l, args, true, walk);
  float* const sum = Memory(l, args, 0).filters;
  // In the order of the walks, whatever thread adds.
  for_elems(args.parallel, l.walks > 1 ? l.filter_elems : 0, [&](std::int64_t first, std::int64_t last) {
    for (int i = 1; i < l.walks; ++i)
      vector_loops().add(sum + first, Memory(l, args, i).filters + first, sum + first, last - first);
  });
  move_filters<true>(l, {s.kh * s.kw, s.c * s.kh * s.kw, s.kh * s.kw}, f32_out(args, 0), sum, args.parallel);
}

template <ShapeOfOp kShape, ConvPass kPass>
constexpr op::KernelRow row(const char* op, op::KernelFn run) {
  return {.op = op,
          .name = "winograd",
          .run = run,
          .applicable = applicable<kShape>,
          .workspace_bytes = workspace_bytes<kShape, kPass>,
          .prepare = prepare};
}

}  // namespace

constinit const op::KernelRow kConv2dWinograd = row<forward_shape, ConvPass::kForward>("conv2d", forward);
constinit const op::KernelRow kConv2dInputGradWinograd =
    row<input_grad_shape, ConvPass::kInputGrad>("conv2d_input_grad", input_grad);
constinit const op::KernelRow kConv2dFilterGradWinograd =
    row<filter_grad_shape, ConvPass::kFilterGrad>("conv2d_filter_grad", filter_grad);

}  // namespace trireme::kernel
