// The three convolutions by im2col and gemm, image by image (im2col.h).
//
// Images, and pieces of them where filters are pointwise, go to whoever is free. The filter gradient sums
// over images: slice 0 accumulates in the output, every other slice in its own part of the workspace, and the
// parts are added in slice order.
#include <cstring>

#include "trireme/kernel/cpu/conv/conv_shape.h"
#include "trireme/kernel/cpu/conv/im2col.h"
#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/kernel/cpu/wide.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) {
  return all_f32(q) && fits_int32(q) && gemm_usable() && method_allows(q.attrs, "im2col");
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

float* workspace(const op::KernelArgs& args, std::int64_t elems_per_slice, int slice) {
  return reinterpret_cast<float*>(args.workspace.data()) + elems_per_slice * slice;
}
std::size_t as_bytes(std::int64_t elems) { return static_cast<std::size_t>(elems) * sizeof(float); }

// ---- Forward

std::int64_t forward_elems(const ConvShape& s) {
  return s.is_pointwise() ? 0 : frame_elems(s) + column_elems(s, /*wide=*/false);
}

std::size_t forward_workspace(const op::KernelQuery& q) {
  const ConvShape s = forward_shape(q.inputs, q.outputs, q.attrs);
  return as_bytes(forward_elems(s) * conv_slices(s, q.width));
}

void forward_image(const ConvShape& s, const float* x, const float* filter, float* y, float* scratch) {
  float* columns = scratch + frame_elems(s);
  const std::int64_t out_elems = s.oh * s.ow;
  fill_frame(s, x, scratch);
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t row = 0; row < s.oh; row += block_rows(s)) {
      const std::int64_t rows = std::min(block_rows(s), s.oh - row);
      im2col(s, scratch, g, row, rows, columns);
      const std::int64_t o = g * s.group_o();
      gemm({.m = s.group_o(),
            .n = rows * s.ow,
            .k = s.taps(),
            .a = filter + o * s.taps(),
            .lda = s.taps(),
            .b = columns,
            .ldb = rows * s.ow,
            .beta = 0,
            .c = y + o * out_elems + row * s.ow,
            .ldc = out_elems});
    }
}

// Products [rows, k] x [k, columns] of images with pointwise filters are cut further where there are many
// threads, along the longer side.
struct Pieces {
  static constexpr std::int64_t kEdge = 16;
  std::int64_t count = 1;
  bool by_rows = false;

  static Pieces of(const ConvShape& s, std::int64_t rows, int slices) {
    constexpr std::int64_t kPerThread = 4, kLeast = 6;  // pieces of a thread; edges of a piece
    const std::int64_t columns = s.oh * s.ow;
    Pieces p;
    if (slices < kManyThreads || s.groups > 1) return p;
    p.by_rows = rows >= columns;
    const std::int64_t edges = (p.by_rows ? rows : columns) / (kEdge * kLeast);
    p.count =
        std::clamp<std::int64_t>((kPerThread * slices + s.n - 1) / s.n, 1, std::max<std::int64_t>(edges, 1));
    return p;
  }
  // Piece `index` of a whole product.
  Gemm cut(Gemm g, std::int64_t index) const {
    const std::int64_t side = by_rows ? g.m : g.n, edges = (side + kEdge - 1) / kEdge;
    const SliceRange r = slice_range(edges, static_cast<int>(count), static_cast<int>(index));
    const std::int64_t begin = r.begin * kEdge, end = std::min(r.end * kEdge, side);
    (by_rows ? g.m : g.n) = end - begin;
    if (by_rows)
      g.a += g.transpose_a ? begin : begin * g.lda, g.c += begin * g.ldc;
    else
      g.b += begin, g.c += begin;
    return g;
  }
};

void forward_pointwise(const ConvShape& s, const Pieces& pieces, std::int64_t piece, const float* x,
                       const float* filter, float* y) {
  const std::int64_t elems = s.h * s.w;
  for (std::int64_t g = 0; g < s.groups; ++g)
    gemm(pieces.cut({.m = s.group_o(),
                     .n = elems,
                     .k = s.group_c(),
                     .a = filter + g * s.group_o() * s.group_c(),
                     .lda = s.group_c(),
                     .b = x + g * s.group_c() * elems,
                     .ldb = elems,
                     .beta = 0,
                     .c = y + g * s.group_o() * elems,
                     .ldc = elems},
                    piece));
}

void forward(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(forward_shape, args);
  const float *x = f32_in(args, 0), *filter = f32_in(args, 1);
  float* y = f32_out(args, 0);
  const int slices = conv_slices(s, args.parallel.width());
  const Pieces pieces = s.is_pointwise() ? Pieces::of(s, s.o, slices) : Pieces{};
  for_each_dynamic(args.parallel, s.n * pieces.count, slices, [&](std::int64_t item, int slice) {
    const std::int64_t i = item / pieces.count;
    const float* image = x + i * s.c * s.h * s.w;
    float* to = y + i * s.o * s.oh * s.ow;
    if (s.is_pointwise()) return forward_pointwise(s, pieces, item % pieces.count, image, filter, to);
    forward_image(s, image, filter, to, workspace(args, forward_elems(s), slice));
  });
}

// ---- Gradient of the input

std::int64_t wide_dy_elems(const ConvShape& s) {
  return (s.group_o() * block_rows(s) * column_width(s, s.stride_w == 1) + 15) / 16 * 16;
}
std::int64_t input_grad_elems(const ConvShape& s) {
  return s.is_pointwise() ? 0 : frame_elems(s) + column_elems(s, s.stride_w == 1) + wide_dy_elems(s);
}

std::size_t input_grad_workspace(const op::KernelQuery& q) {
  const ConvShape s = input_grad_shape(q.inputs, q.outputs, q.attrs);
  return as_bytes(input_grad_elems(s) * conv_slices(s, q.width));
}

// Rows of ow elements -> rows of `width`, zero behind each.
void widen(const ConvShape& s, const float* dy, std::int64_t rows, std::int64_t width, float* wide) {
  for (std::int64_t o = 0; o < s.group_o(); ++o)
    for (std::int64_t r = 0; r < rows; ++r, wide += width) {
      std::memcpy(wide, dy + o * s.oh * s.ow + r * s.ow, as_bytes(s.ow));
      std::memset(wide + s.ow, 0, as_bytes(width - s.ow));
    }
}

void input_grad_image(const ConvShape& s, const float* filter, const float* dy, float* dx, float* scratch) {
  const std::int64_t width = column_width(s, s.stride_w == 1);
  float *frame = scratch, *columns = scratch + frame_elems(s);
  float* wide = columns + column_elems(s, s.stride_w == 1);
  std::memset(frame, 0, as_bytes(frame_elems(s)));
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t row = 0; row < s.oh; row += block_rows(s)) {
      const std::int64_t rows = std::min(block_rows(s), s.oh - row);
      const std::int64_t o = g * s.group_o();
      widen(s, dy + o * s.oh * s.ow + row * s.ow, rows, width, wide);
      gemm({.transpose_a = true,
            .m = s.taps(),
            .n = rows * width,
            .k = s.group_o(),
            .a = filter + o * s.taps(),
            .lda = s.taps(),
            .b = wide,
            .ldb = rows * width,
            .beta = 0,
            .c = columns,
            .ldc = rows * width});
      col2im_add(s, columns, g, row, rows, frame);
    }
  read_frame(s, frame, dx);
}

void input_grad_pointwise(const ConvShape& s, const Pieces& pieces, std::int64_t piece, const float* filter,
                          const float* dy, float* dx) {
  const std::int64_t elems = s.h * s.w;
  for (std::int64_t g = 0; g < s.groups; ++g)
    gemm(pieces.cut({.transpose_a = true,
                     .m = s.group_c(),
                     .n = elems,
                     .k = s.group_o(),
                     .a = filter + g * s.group_o() * s.group_c(),
                     .lda = s.group_c(),
                     .b = dy + g * s.group_o() * elems,
                     .ldb = elems,
                     .beta = 0,
                     .c = dx + g * s.group_c() * elems,
                     .ldc = elems},
                    piece));
}

void input_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(input_grad_shape, args);
  const float *filter = f32_in(args, 0), *dy = f32_in(args, 1);
  float* dx = f32_out(args, 0);
  const int slices = conv_slices(s, args.parallel.width());
  const Pieces pieces = s.is_pointwise() ? Pieces::of(s, s.c, slices) : Pieces{};
  for_each_dynamic(args.parallel, s.n * pieces.count, slices, [&](std::int64_t item, int slice) {
    const std::int64_t i = item / pieces.count;
    const float* from = dy + i * s.o * s.oh * s.ow;
    float* to = dx + i * s.c * s.h * s.w;
    if (s.is_pointwise()) return input_grad_pointwise(s, pieces, item % pieces.count, filter, from, to);
    input_grad_image(s, filter, from, to, workspace(args, input_grad_elems(s), slice));
  });
}

// ---- Gradient of the filter

std::int64_t filter_elems(const ConvShape& s) { return (s.o * s.taps() + 15) / 16 * 16; }
// Frame and columns, then the partial filter gradient (of slice 0 unused).
std::int64_t filter_grad_elems(const ConvShape& s) { return forward_elems(s) + filter_elems(s); }

std::size_t filter_grad_workspace(const op::KernelQuery& q) {
  const ConvShape s = filter_grad_shape(q.inputs, q.outputs, q.attrs);
  return as_bytes(filter_grad_elems(s) * conv_slices(s, q.width));
}

void filter_grad_image(const ConvShape& s, const float* x, const float* dy, float* df, float* scratch) {
  float* columns = scratch + frame_elems(s);
  const std::int64_t out_elems = s.oh * s.ow;
  if (!s.is_pointwise()) fill_frame(s, x, scratch);
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t row = 0; row < s.oh; row += block_rows(s)) {
      const std::int64_t rows = std::min(block_rows(s), s.oh - row);
      if (!s.is_pointwise()) im2col(s, scratch, g, row, rows, columns);
      const std::int64_t o = g * s.group_o();
      gemm({.transpose_b = true,
            .m = s.group_o(),
            .n = s.taps(),
            .k = rows * s.ow,
            .a = dy + o * out_elems + row * s.ow,
            .lda = out_elems,
            .b = s.is_pointwise() ? x + g * s.group_c() * out_elems + row * s.ow : columns,
            .ldb = s.is_pointwise() ? out_elems : rows * s.ow,
            .beta = 1,
            .c = df + o * s.taps(),
            .ldc = s.taps()});
    }
}

void filter_grad(op::KernelArgs& args) {
  const ConvShape s = shape_of_call(filter_grad_shape, args);
  const float *x = f32_in(args, 0), *dy = f32_in(args, 1);
  float* df = f32_out(args, 0);
  const int slices = conv_slices(s, args.parallel.width());
  for_slices(args.parallel, s.n, slices, [&](std::int64_t begin, std::int64_t end, int slice) {
    float* scratch = workspace(args, filter_grad_elems(s), slice);
    float* sum = slice == 0 ? df : scratch + forward_elems(s);
    std::memset(sum, 0, as_bytes(s.o * s.taps()));
    for (std::int64_t i = begin; i < end; ++i)
      filter_grad_image(s, x + i * s.c * s.h * s.w, dy + i * s.o * s.oh * s.ow, sum, scratch);
  });
  for_elems(args.parallel, s.o * s.taps(), [&](std::int64_t begin, std::int64_t end) {
    for (int slice = 1; slice < slices; ++slice)
      vector_loops().add(df + begin, workspace(args, filter_grad_elems(s), slice) + forward_elems(s) + begin,
                         df + begin, end - begin);
  });
}

}  // namespace

extern const op::KernelRow kConv2dGemm{.op = "conv2d",
                                       .name = kGemmRowName,
                                       .run = forward,
                                       .applicable = applicable,
                                       .workspace_bytes = forward_workspace,
                                       .prepare = prepare};
extern const op::KernelRow kConv2dInputGradGemm{.op = "conv2d_input_grad",
                                                .name = kGemmRowName,
                                                .run = input_grad,
                                                .applicable = applicable,
                                                .workspace_bytes = input_grad_workspace,
                                                .prepare = prepare};
extern const op::KernelRow kConv2dFilterGradGemm{.op = "conv2d_filter_grad",
                                                 .name = kGemmRowName,
                                                 .run = filter_grad,
                                                 .applicable = applicable,
                                                 .workspace_bytes = filter_grad_workspace,
                                                 .prepare = prepare};
extern const op::KernelRow kConv2dWide = Wide<kConv2dGemm>::row("conv2d");
extern const op::KernelRow kConv2dInputGradWide = Wide<kConv2dInputGradGemm>::row("conv2d_input_grad");
extern const op::KernelRow kConv2dFilterGradWide = Wide<kConv2dFilterGradGemm>::row("conv2d_filter_grad");

}  // namespace trireme::kernel
