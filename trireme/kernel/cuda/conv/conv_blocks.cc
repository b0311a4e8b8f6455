#include "trireme/kernel/cuda/conv/conv_blocks.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {
namespace {

using op::detail::ConvGeometry;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kPack = 8;  // elements of 16 bytes

// kC channels, blocks of kSh x kSw pixels, kWide channels of a block.
constexpr const char* kText = R"cuda(
struct Image { i64 packs; int h, w, rows, columns, pad_h, pad_w; };
struct Filter { i64 elems; int kh, kw, dilation_h, dilation_w, rows, columns; };
// Where channel `at` of a block is from.
struct Place {
  int r, t, c;
  __device__ Place(int at) : r(at / (kSw * kC)), t(at / kC % kSw), c(at % kC) {}
};

// A thread has kPack channels of a block.
extern "C" __global__ void block_image(const u16* x, u16* to, Image g) {
  for (i64 i = first_index(); i < g.packs; i += grid_step()) {
    const int first = (int)(i % (kWide / kPack)) * kPack;
    const i64 block = i / (kWide / kPack), line = block / g.columns;
    const int top = (int)(line % g.rows) * kSh - g.pad_h, left = (int)(block % g.columns) * kSw - g.pad_w;
    const u16* image = x + line / g.rows * g.h * g.w * kC;
    Pack<u16, kPack> all;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const Place p(first + k);
      const int row = top + p.r, column = left + p.t;
      const bool there = p.r < kSh && row >= 0 && row < g.h && column >= 0 && column < g.w;
      all.v[k] = there ? image[((i64)row * g.w + column) * kC + p.c] : (u16)0;
    }
    *(Pack<u16, kPack>*)(to + i * kPack) = all;
  }
}
extern "C" __global__ void block_filter(const u16* filter, u16* to, Filter g) {
  for (i64 i = first_index(); i < g.elems; i += grid_step()) {
    const Place p((int)(i % kWide));
    const i64 tap = i / kWide, line = tap / g.columns;
    const int row = (int)(line % g.rows) * kSh + p.r, column = (int)(tap % g.columns) * kSw + p.t;
    const int kh = row / g.dilation_h, kw = column / g.dilation_w;
    const bool there = p.r < kSh && row % g.dilation_h == 0 && column % g.dilation_w == 0 && kh < g.kh && kw < g.kw;
    to[i] = there ? filter[((line / g.rows * g.kh + kh) * g.kw + kw) * kC + p.c] : (u16)0;
  }
}
extern "C" __global__ void unblock_filter(const u16* from, u16* filter, Filter g) {
  for (i64 i = first_index(); i < g.elems; i += grid_step()) {
    const int c = (int)(i % kC), kw = (int)(i / kC % g.kw), kh = (int)(i / kC / g.kw % g.kh);
    const i64 o = i / kC / g.kw / g.kh;
    const int row = kh * g.dilation_h, column = kw * g.dilation_w;
    const i64 tap = (o * g.rows + row / kSh) * g.columns + column / kSw;
    filter[i] = from[tap * kWide + (row % kSh * kSw + column % kSw) * kC + c];
  }
}
)cuda";

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
                  g.stride_w, b.c, kPack, kText);
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
