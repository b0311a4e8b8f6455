#include "trireme/kernel/cuda/conv/conv_blocks.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {

extern const char kConvBlocksText[];  // conv_blocks.cu

namespace {

using op::detail::ConvGeometry;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kPack = 8;  // elements of 16 bytes

struct Image {
  std::int64_t packs;
  int h, w, rows, columns, pad_h, pad_w;
};
struct Filter {
  std::int64_t elems;
  int kh, kw, dilation_h, dilation_w, rows, columns;
};

std::int64_t whole(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
int narrow(std::int64_t n) { return static_cast<int>(n); }

Filter filter_of(const ConvGeometry& plain, const ConvGeometry& blocked, std::int64_t elems) {
  return {elems,
          narrow(plain.kh),
          narrow(plain.kw),
          narrow(plain.dilation_h),
          narrow(plain.dilation_w),
          narrow(blocked.kh),
          narrow(blocked.kw)};
}

}  // namespace

Result<ImageBlocks> ImageBlocks::make(CudaDevice& device, const ConvGeometry& g) {
  ImageBlocks made;
  made.plain_ = g;
  ConvGeometry& b = made.blocked_ = g;
  b.c = b.cg = whole(g.stride_h * g.stride_w * g.c, kPack) * kPack;
  b.kh = whole((g.kh - 1) * g.dilation_h + 1, g.stride_h);
  b.kw = whole((g.kw - 1) * g.dilation_w + 1, g.stride_w);
  b.h = g.oh + b.kh - 1;
  b.w = g.ow + b.kw - 1;
  b.stride_h = b.stride_w = b.dilation_h = b.dilation_w = 1;
  b.pad_h = b.pad_w = 0;
  const std::string text =
      fmt::format("constexpr int kC = {}, kSh = {}, kSw = {}, kWide = {}, kPack = {};\n{}", g.c, g.stride_h,
                  g.stride_w, b.c, kPack, kConvBlocksText);
  TR_ASSIGN_OR_RETURN(made.image_, device.function(text, "block_image"));
  TR_ASSIGN_OR_RETURN(made.filter_, device.function(text, "block_filter"));
  TR_ASSIGN_OR_RETURN(made.unfilter_, device.function(text, "unblock_filter"));
  return made;
}

Status ImageBlocks::block_image(CudaStream& stream, const void* x, void* to) const {
  const Image g{image_elems() / kPack, narrow(plain_.h),     narrow(plain_.w),    narrow(blocked_.h),
                narrow(blocked_.w),    narrow(plain_.pad_h), narrow(plain_.pad_w)};
  return launch(stream, *image_, {blocks_for(g.packs, kThreads)}, {kThreads}, 0, x, to, g);
}

Status ImageBlocks::block_filter(CudaStream& stream, const void* filter, void* to) const {
  const Filter g = filter_of(plain_, blocked_, filter_elems());
  return launch(stream, *filter_, {blocks_for(g.elems, kThreads)}, {kThreads}, 0, filter, to, g);
}

Status ImageBlocks::unblock_filter(CudaStream& stream, const void* from, void* filter) const {
  const Filter g = filter_of(plain_, blocked_, plain_.o * plain_.kh * plain_.kw * plain_.c);
  return launch(stream, *unfilter_, {blocks_for(g.elems, kThreads)}, {kThreads}, 0, from, filter, g);
}

}  // namespace trireme::kernel::cuda
