// Convolutions of few channels with strides, channels last, as convolutions of blocks without: the pixels
// that a stride steps over become channels of one pixel. Of 3 channels and strides of 2 a filter of 7 x 7
// becomes one of 4 x 4 over 12 channels: tensor cores are filled with fewer zeros, and every pixel is read by
// fewer taps.
//   X[n, i, j, (r, t, c)] = x[n, i S_h + r - pad_h, j S_w + t - pad_w, c]
//   W[o, a, b, (r, t, c)] = w[o, a S_h + r, b S_w + t, c]     0 outside; zeros between taps if dilated
// so that y = conv(x, w) = conv(X, W) with strides of 1 and no padding. Channels of blocks are padded to
// whole packs.
#pragma once

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/op/nn/conv2d.h"

namespace trireme::kernel::cuda {

class ImageBlocks {
 public:
  // Elements of 2 bytes; geometry without groups.
  static Result<ImageBlocks> make(CudaDevice& device, const op::detail::ConvGeometry& g);
  const op::detail::ConvGeometry& blocked() const { return blocked_; }  // of X and W
  std::int64_t image_elems() const { return blocked_.n * blocked_.h * blocked_.w * blocked_.c; }
  std::int64_t filter_elems() const { return blocked_.o * blocked_.kh * blocked_.kw * blocked_.c; }

  // `to` lies at a multiple of 16 bytes.
  Status block_image(CudaStream& stream, const void* x, void* to) const;
  Status block_filter(CudaStream& stream, const void* filter, void* to) const;
  Status unblock_filter(CudaStream& stream, const void* from, void* filter) const;

 private:
  op::detail::ConvGeometry plain_{}, blocked_{};
  const Function *image_ = nullptr, *filter_ = nullptr, *unfilter_ = nullptr;
};

}  // namespace trireme::kernel::cuda
