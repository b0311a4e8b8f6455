// The three convolutions of f32 images with the channels last where filters are single points:
// plain products of the pixels, [pixels, C], with the filter, [O, C]. Strides take every so manieth pixel.
//
// Forward and back to the input, pieces of rows of an image's outputs go to whoever is free. The filter
// gradient sums over pixels: it is cut over images and output channels (conv_cut.h), parts over images are
// added in their order.
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/conv/conv_last.h"
#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

constexpr int kImageBytes = 4;             // of an element, read once
constexpr std::int64_t kPixels = 1024;     // of a piece, about
constexpr std::int64_t kSumPixels = 2048;  // of a product of a filter gradient, about

std::size_t as_bytes(std::int64_t elems) { return static_cast<std::size_t>(elems) * sizeof(float); }
std::int64_t whole_lines(std::int64_t elems) { return (elems + 15) / 16 * 16; }

class PointwiseState final : public op::KernelState {
 public:
  PointwiseState(ConvKind kind, const ConvShape& s, int width)
      : kind_(kind), s_(s), strided_(s.stride_h > 1 || s.stride_w > 1) {
    gemm_prepare();
    if (kind == ConvKind::kFilterGrad) {
      cut_ = ConvCut::of(kind, s, width >= kManyThreads ? 2 * width : width, kImageBytes);
      threads_ = std::min(cut_.count(), width);
      return;
    }
    threads_ = conv_slices(s, width);
    // Whole images where they are small and nothing is to be moved.
    const std::int64_t rows = s.n * s.oh, wanted = std::max<std::int64_t>(1, kPixels / s.ow);
    const std::int64_t fair = std::max<std::int64_t>(1, rows / (4 * threads_));
    rows_ = std::min({wanted, fair, strided_ ? s.oh : rows});
    pieces_ = strided_ ? s.n * ((s.oh + rows_ - 1) / rows_) : (rows + rows_ - 1) / rows_;
  }

  std::size_t workspace_bytes() const {
    if (kind_ != ConvKind::kFilterGrad) return as_bytes(strided_ ? threads_ * own_elems() : 0);
    return as_bytes((cut_.count() - cut_.channels) * part_elems() + (strided_ ? threads_ * own_elems() : 0));
  }

  void run(op::KernelArgs& args) const {
    if (kind_ == ConvKind::kFilterGrad) return run_filter_grad(args);
    for_each_dynamic(args.parallel, pieces_, threads_, [&](std::int64_t i, int slice) {
      float* const own = floats(args) + slice * own_elems();
      const std::int64_t per_image = (s_.oh + rows_ - 1) / rows_;
      // Rows of outputs, of all images one after another.
      const std::int64_t first = strided_ ? i / per_image * s_.oh + i % per_image * rows_ : i * rows_;
      const std::int64_t limit = strided_ ? (i / per_image + 1) * s_.oh : s_.n * s_.oh;
      const std::int64_t last = std::min(first + rows_, limit);
      kind_ == ConvKind::kForward ? forward(args, first, last, own) : input_grad(args, first, last, own);
    });
  }

 private:
  static float* floats(const op::KernelArgs& args) { return reinterpret_cast<float*>(args.workspace.data()); }
  std::int64_t sum_rows() const { return std::clamp<std::int64_t>(kSumPixels / s_.ow, 1, s_.oh); }
  std::int64_t own_elems() const {
    return whole_lines((kind_ == ConvKind::kFilterGrad ? sum_rows() : rows_) * s_.ow * s_.c);
  }
  std::int64_t part_elems() const { return s_.o / cut_.channels * s_.c; }

  // The pixels of x under rows [first, last) of outputs, dense: where they are, or copied to `own`.
  const float* pixels(const float* x, std::int64_t first, std::int64_t last, float* own) const {
    if (!strided_) return x + first * s_.w * s_.c;
    float* to = own;
    for (std::int64_t r = first; r < last; ++r) {
      const float* row = x + (r / s_.oh * s_.h + r % s_.oh * s_.stride_h) * s_.w * s_.c;
      for (std::int64_t j = 0; j < s_.ow; ++j, to += s_.c)
        std::memcpy(to, row + j * s_.stride_w * s_.c, as_bytes(s_.c));
    }
    return own;
  }

  void forward(op::KernelArgs& args, std::int64_t first, std::int64_t last, float* own) const {
    gemm({.transpose_b = true,
          .m = (last - first) * s_.ow,
          .n = s_.o,
          .k = s_.c,
          .a = pixels(f32_in(args, 0), first, last, own),
          .lda = s_.c,
          .b = f32_in(args, 1),
          .ldb = s_.c,
          .beta = 0,
          .c = f32_out(args, 0) + first * s_.ow * s_.o,
          .ldc = s_.o});
  }

  void input_grad(op::KernelArgs& args, std::int64_t first, std::int64_t last, float* own) const {
    float* const dx = f32_out(args, 0);
    gemm({.m = (last - first) * s_.ow,
          .n = s_.c,
          .k = s_.o,
          .a = f32_in(args, 1) + first * s_.ow * s_.o,
          .lda = s_.o,
          .b = f32_in(args, 0),
          .ldb = s_.c,
          .beta = 0,
          .c = strided_ ? own : dx + first * s_.w * s_.c,
          .ldc = s_.c});
    if (strided_) spread(own, first, last, dx);
  }

  // Gradients of some rows of outputs to where their pixels are, and zeros around them, up to the next row.
  void spread(const float* from, std::int64_t first, std::int64_t last, float* dx) const {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t at = r % s_.oh * s_.stride_h, end = r % s_.oh + 1 == s_.oh ? s_.h : at + s_.stride_h;
      float* const row = dx + (r / s_.oh * s_.h + at) * s_.w * s_.c;
      std::memset(row, 0, as_bytes((end - at) * s_.w * s_.c));
      for (std::int64_t j = 0; j < s_.ow; ++j, from += s_.c)
        std::memcpy(row + j * s_.stride_w * s_.c, from, as_bytes(s_.c));
    }
  }

  void run_filter_grad(op::KernelArgs& args) const {
    const float *x = f32_in(args, 0), *dy = f32_in(args, 1);
    float *const out = f32_out(args, 0), *const others = floats(args);
    float* const owns = others + (cut_.count() - cut_.channels) * part_elems();
    const std::int64_t part_o = s_.o / cut_.channels;
    const auto partial = [&](int i) {
      return i < cut_.channels ? out + i * part_elems() : others + (i - cut_.channels) * part_elems();
    };
    for_each_dynamic(args.parallel, cut_.count(), threads_, [&](std::int64_t i, int slice) {
      const SliceRange images = slice_range(s_.n, cut_.images, static_cast<int>(i / cut_.channels));
      const std::int64_t begin = images.begin * s_.oh, end = images.end * s_.oh;
      float* const own = owns + slice * own_elems();
      const std::int64_t step = strided_ ? sum_rows() : std::max<std::int64_t>(1, kSumPixels / s_.ow);
      for (std::int64_t first = begin; first < end; first += step) {
        const std::int64_t last = std::min(first + step, end);
        gemm({.transpose_a = true,
              .m = part_o,
              .n = s_.c,
              .k = (last - first) * s_.ow,
              .a = dy + first * s_.ow * s_.o + i % cut_.channels * part_o,
              .lda = s_.o,
              .b = pixels(x, first, last, own),
              .ldb = s_.c,
              .beta = first == begin ? 0.0F : 1.0F,
              .c = partial(static_cast<int>(i)),
              .ldc = s_.c});
      }
    });
    add_partials(args.parallel, cut_, part_elems(), partial);
  }

  ConvKind kind_;
  ConvShape s_;
  bool strided_;
  ConvCut cut_;
  int threads_ = 1;
  std::int64_t rows_ = 1, pieces_ = 1;  // rows of outputs in a piece
};

std::unique_ptr<PointwiseState> make_state(const op::KernelQuery& q) {
  if (!gemm_usable()) return nullptr;
  const auto conv = LastConv::of(q, DType::kF32, "im2col");
  if (!conv) return nullptr;
  const ConvShape& s = conv->shape;
  if (s.taps() != s.c || s.kh != 1 || s.kw != 1 || s.groups != 1 || s.pad_h != 0 || s.pad_w != 0)
    return nullptr;
  return std::make_unique<PointwiseState>(conv->kind, s, q.width);
}

constexpr op::KernelRow pointwise_row(const char* op) {
  return {
      .op = op,
      .name = kGemmRowName,
      .run = [](op::KernelArgs& args) { static_cast<const PointwiseState&>(*args.state).run(args); },
      .applicable = [](const op::KernelQuery& q) { return make_state(q) != nullptr; },
      .workspace_bytes = [](const op::KernelQuery& q) { return make_state(q)->workspace_bytes(); },
      .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> { return make_state(q); },
      .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kConv2dLastGemm = pointwise_row("conv2d");
extern constinit const op::KernelRow kConv2dInputGradLastGemm = pointwise_row("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradLastGemm = pointwise_row("conv2d_filter_grad");

}  // namespace trireme::kernel
