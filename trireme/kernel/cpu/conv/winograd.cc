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
// threads there are; where it is small each thread takes blocks of its own, which stay in its cache. Images
// have planes per channel, or the channels last.
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/conv/conv_last.h"
#include "trireme/kernel/cpu/conv/winograd_layout.h"
#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/winograd_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using namespace winograd;

constexpr std::int64_t kMostTaps = 25;

// Calls fn(begin, end, memory, parallel) for the tile rows of every walk, with the threads that it has; where
// there are no sums to keep apart, for every block.
template <typename Fn>
void for_walks(const WinogradLayout& l, const op::KernelArgs& args, bool sums, const Fn& fn) {
  const std::int64_t all = l.n * l.tile_rows;
  if (l.team > 1) return fn(std::int64_t{0}, all, WinogradWorkspace(l, args, 0), args.parallel);
  if (!sums) {
    for_each_dynamic(args.parallel, (all + l.rows - 1) / l.rows, l.walks, [&](std::int64_t i, int walk) {
      fn(i * l.rows, std::min((i + 1) * l.rows, all), WinogradWorkspace(l, args, walk), op::serial());
    });
    return;
  }
  for_slices(args.parallel, all, l.walks, [&](std::int64_t begin, std::int64_t end, int walk) {
    fn(begin, end, WinogradWorkspace(l, args, walk), op::serial());
  });
}

// Slices for `items` of all components of 16 channels of a row of tiles.
int slices_for(const WinogradLayout& l, std::int64_t items) {
  return num_slices(items, items * l.tiles * l.components * kPixel, l.team);
}

std::size_t pixel_bytes(std::int64_t pixels) {
  return static_cast<std::size_t>(pixels * kPixel) * sizeof(float);
}

// `n` places of an image with the channels last, and of a block of its channels; and back.
void copy_pixels(const float* from, std::int64_t channels, std::int64_t lanes, std::int64_t n, float* to) {
  if (lanes == kPixel) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * kPixel, from + i * channels, pixel_bytes(1));
    return;
  }
  std::memset(to, 0, pixel_bytes(n));
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(from + i * channels, lanes, to + i * kPixel);
}
void copy_back(const float* from, std::int64_t channels, std::int64_t lanes, std::int64_t n, float* to) {
  if (lanes == kPixel) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * channels, from + i * kPixel, pixel_bytes(1));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(from + i * kPixel, lanes, to + i * channels);
}

// Places [first, first + frame_rows) of one image's 16 channels, with zeros around them.
void fill_frame(const WinogradLayout& l, const WinogradOperand& s, const float* image, std::int64_t block,
                std::int64_t first, float* frame) {
  float* const run = frame + s.frame_rows * s.frame_width * kPixel;
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, s.h);
  const std::int64_t end = std::clamp<std::int64_t>(first + s.frame_rows, begin, s.h);
  const std::int64_t lanes = std::min(kPixel, s.channels - block * kPixel), plane = s.h * s.w;
  if (!l.channels_last)
    l.loops->gather(image + block * kPixel * plane + begin * s.w, plane, lanes, (end - begin) * s.w, run);
  for (std::int64_t r = 0; r < s.frame_rows; ++r) {
    float* const row = frame + r * s.frame_width * kPixel;
    const std::int64_t at = first + r;
    if (at < begin || at >= end) {
      std::memset(row, 0, pixel_bytes(s.frame_width));
      continue;
    }
    const std::int64_t used = std::min(s.w, s.frame_width - s.pad_w);
    std::memset(row, 0, pixel_bytes(s.pad_w));
    if (l.channels_last)
      copy_pixels(image + at * s.w * s.channels + block * kPixel, s.channels, lanes, used,
                  row + s.pad_w * kPixel);
    else
      std::memcpy(row + s.pad_w * kPixel, run + (at - begin) * s.w * kPixel, pixel_bytes(used));
    std::memset(row + (s.pad_w + used) * kPixel, 0, pixel_bytes(s.frame_width - s.pad_w - used));
  }
}

using Transform = void (*)(const float*, std::int64_t, std::int64_t, float*, std::int64_t, std::int64_t);

// Tile rows [begin, end) of all images -> [components][positions][channels].
void transform(const WinogradLayout& l, const WinogradOperand& s, Transform how, const float* images,
               std::int64_t begin, std::int64_t end, float* to, float* frames, op::Parallel& parallel) {
  const std::int64_t items = (end - begin) * s.blocks(), stride = apart((end - begin) * l.tiles * s.padded());
  for_each_dynamic(parallel, items, slices_for(l, items), [&](std::int64_t i, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks();
    fill_frame(l, s, images + row / l.tile_rows * s.channels * s.h * s.w, block,
               row % l.tile_rows * kTile - s.pad_h, frame);
    how(frame, s.frame_width, l.tiles, to + (row - begin) * l.tiles * s.padded() + block * kPixel, s.padded(),
        stride);
  });
}

// [components][positions][channels] -> tile rows [begin, end) of y.
void finish(const WinogradLayout& l, const float* from, std::int64_t begin, std::int64_t end, float* y,
            float* frames, op::Parallel& parallel) {
  const WinogradOperand& s = l.out;
  const std::int64_t items = (end - begin) * s.blocks(), stride = apart((end - begin) * l.tiles * s.padded());
  for_each_dynamic(parallel, items, slices_for(l, items), [&](std::int64_t i, int slice) {
    float* const frame = frames + slice * l.frame_elems();
    float* const run = frame + kTile * s.frame_width * kPixel;
    const std::int64_t row = begin + i / s.blocks(), block = i % s.blocks(), at = row % l.tile_rows * kTile;
    l.loops->result(from + (row - begin) * l.tiles * s.padded() + block * kPixel, s.padded(), stride, l.tiles,
                    frame, s.frame_width);
    const std::int64_t valid = std::min(kTile, s.h - at), plane = s.h * s.w,
                       lanes = std::min(kPixel, s.channels - block * kPixel);
    float* const image = y + row / l.tile_rows * s.channels * plane;
    if (l.channels_last) {
      for (std::int64_t r = 0; r < valid; ++r)
        copy_back(frame + r * s.frame_width * kPixel, s.channels, lanes, s.w,
                  image + (at + r) * s.w * s.channels + block * kPixel);
      return;
    }
    for (std::int64_t r = 0; r < valid; ++r)
      std::memcpy(run + r * s.w * kPixel, frame + r * s.frame_width * kPixel, pixel_bytes(s.w));
    l.loops->scatter(run, valid * s.w, image + block * kPixel * plane + at * s.w, plane, lanes);
  });
}

// Filters to [components][from][to] or back.
template <bool kBack, typename Float>
void move_filters(const WinogradLayout& l, const FilterView& v, Float* filter, float* moved,
                  op::Parallel& parallel) {
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
                   l.loops->filter_back(at, l.filter_apart(), taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < v.area; ++t)
                       own[lane * v.to_stride + v.tap(t)] = taps[t * kPixel + lane];
                 } else {
                   std::memset(taps, 0, sizeof taps);
                   for (std::int64_t lane = 0; lane < lanes; ++lane)
                     for (std::int64_t t = 0; t < v.area; ++t)
                       taps[t * kPixel + lane] = own[lane * v.to_stride + v.tap(t)];
                   l.loops->filter(taps, at, l.filter_apart());
                 }
               }
             });
}

// Calls product(component, begin, end) for parts of [0, size): their number alone does not divide well.
template <typename Fn>
void for_products(const WinogradLayout& l, std::int64_t size, const Fn& product, op::Parallel& parallel) {
  const int parts = l.team <= 4 ? 1 : 4;
  const std::int64_t items = l.components * parts;
  for_each_dynamic(parallel, items, static_cast<int>(std::min<std::int64_t>(items, l.team)),
                   [&](std::int64_t i, int) {
                     const SliceRange part = slice_range(size, parts, static_cast<int>(i % parts));
                     if (part.begin < part.end) product(i / parts, part.begin, part.end);
                   });
}

// Columns of missing channels are zero in b, so that they may be multiplied or not.
void multiply(const WinogradLayout& l, const SmallProduct& p) {
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

// Forward, and back to the input.
void convolve(const ConvShape& s, ConvKind pass, bool last, op::KernelArgs& args) {
  const WinogradLayout l(s, pass, args.parallel.width(), last);
  const bool forth = pass == ConvKind::kForward;
  const float *x = f32_in(args, forth ? 0 : 1), *filter = f32_in(args, forth ? 1 : 0);
  float* const y = f32_out(args, 0);
  const std::int64_t k = l.in.padded(), n = l.out.padded();
  move_filters<false>(l, FilterView(s, pass, last), filter, WinogradWorkspace(l, args, 0).filters,
                      args.parallel);
  const auto walk = [&](std::int64_t first_row, std::int64_t last_row, const WinogradWorkspace& m,
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
                         .a = m.in + component * apart(positions * k) + first * k,
                         .a_row = k,
                         .a_step = 1,
                         .b = m.filters + component * l.filter_apart(),
                         .add = false,
                         .c = m.out + component * apart(positions * n) + first * n});
          },
          parallel);
      finish(l, m.out, begin, end, y, m.frames, parallel);
    }
  };
  for_walks(l, args, false, walk);
}

void filter_grad(const ConvShape& s, bool channels_last, op::KernelArgs& args) {
  const WinogradLayout l(s, ConvKind::kFilterGrad, args.parallel.width(), channels_last);
  const std::int64_t k = l.in.padded(), n = l.out.padded();
  const auto walk = [&](std::int64_t first_row, std::int64_t last_row, const WinogradWorkspace& m,
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
                         .a = m.in + component * apart(positions * k) + first,
                         .a_row = 1,
                         .a_step = k,
                         .b = m.out + component * apart(positions * n),
                         .add = begin != first_row,
                         .c = m.filters + component * l.filter_apart() + first * n});
          },
          parallel);
    }
  };
  for_walks(l, args, true, walk);
  float* const sum = WinogradWorkspace(l, args, 0).filters;
  // In the order of the walks, whatever thread adds.
  for_elems(args.parallel, l.walks > 1 ? l.filter_elems : 0, [&](std::int64_t first, std::int64_t last) {
    for (int i = 1; i < l.walks; ++i)
      vector_loops().add(sum + first, WinogradWorkspace(l, args, i).filters + first, sum + first,
                         last - first);
  });
  move_filters<true>(l, FilterView(s, ConvKind::kFilterGrad, channels_last), f32_out(args, 0), sum,
                     args.parallel);
}

// ---- Rows

void run(const ConvShape& s, ConvKind pass, bool last, op::KernelArgs& args) {
  pass == ConvKind::kFilterGrad ? filter_grad(s, last, args) : convolve(s, pass, last, args);
}

bool takes(const ConvShape& s) {
  return s.macs() > 0 && (s.kh == 3 || s.kh == 5) && s.kw == s.kh && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.groups == 1 && s.pad_h < s.kh && s.pad_w < s.kw;
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

template <ShapeOfOp kShape, ConvKind kPass>
constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = "winograd",
          .run = [](op::KernelArgs& args) { run(shape_of_call(kShape, args), kPass, false, args); },
          .applicable =
              [](const op::KernelQuery& q) {
                return all_f32(q) && fits_int32(q) && gemm_usable() && method_allows(q.attrs, "winograd") &&
                       takes(kShape(q.inputs, q.outputs, q.attrs));
              },
          .workspace_bytes =
              [](const op::KernelQuery& q) {
                return WinogradLayout(kShape(q.inputs, q.outputs, q.attrs), kPass, q.width, false).bytes();
              },
          .prepare = prepare};
}

struct LastState final : op::KernelState {
  explicit LastState(LastConv c) : conv(std::move(c)) { gemm_prepare(); }
  LastConv conv;
};

std::optional<LastConv> last_conv(const op::KernelQuery& q) {
  auto conv = LastConv::of(q, DType::kF32, "winograd");
  if (conv && (!gemm_usable() || !takes(conv->shape))) conv.reset();
  return conv;
}

constexpr op::KernelRow last_row(const char* op) {
  return {.op = op,
          .name = "winograd",
          .run =
              [](op::KernelArgs& args) {
                const LastConv& conv = static_cast<const LastState&>(*args.state).conv;
                run(conv.shape, conv.kind, true, args);
              },
          .applicable = [](const op::KernelQuery& q) { return last_conv(q).has_value(); },
          .workspace_bytes =
              [](const op::KernelQuery& q) {
                const auto conv = last_conv(q);
                return WinogradLayout(conv->shape, conv->kind, q.width, true).bytes();
              },
          .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
            return std::make_unique<LastState>(*last_conv(q));
          },
          .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kConv2dWinograd = row<forward_shape, ConvKind::kForward>("conv2d");
extern constinit const op::KernelRow kConv2dInputGradWinograd =
    row<input_grad_shape, ConvKind::kInputGrad>("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradWinograd =
    row<filter_grad_shape, ConvKind::kFilterGrad>("conv2d_filter_grad");
extern constinit const op::KernelRow kConv2dLastWinograd = last_row("conv2d");
extern constinit const op::KernelRow kConv2dInputGradLastWinograd = last_row("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradLastWinograd = last_row("conv2d_filter_grad");

}  // namespace trireme::kernel
