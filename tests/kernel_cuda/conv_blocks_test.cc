// Convolutions of few channels with strides as convolutions of blocks: the same sums.
#include "trireme/kernel/cuda/conv/conv_blocks.h"

#include "tests/conformance/harness.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/kernel/cuda/conv/conv_direct.h"
#include "trireme/op/ops.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::detail::ConvGeometry;

struct Case {
  std::int64_t channels, kernel, stride_h, stride_w, pad, dilation;
};

Tensor made_on_device(const Shape& shape, std::uint64_t key) {
  return to_device(op::testing::converted(op::testing::random_real({DType::kF32, shape}, key), DType::kBF16));
}

void check(const Case& c) {
  CudaDevice& device = *gpu().device;
  using I = std::int64_t;
  const op::Attrs attrs = *op::complete_attrs(op::kConv2d, {{"stride_h", c.stride_h},
                                                            {"stride_w", c.stride_w},
                                                            {"pad_h", c.pad},
                                                            {"pad_w", c.pad},
                                                            {"dilation_h", c.dilation},
                                                            {"dilation_w", c.dilation}});
  const I n = 2, h = 13, w = 11, o = 5, k = c.kernel;
  const std::vector<TensorType> in{{DType::kBF16, {n, c.channels, h, w}},
                                   {DType::kBF16, {o, c.channels, k, k}}};
  const auto out = *op::infer_types(op::kConv2d, in, attrs);
  const ConvGeometry g = *op::detail::conv_geometry(in[0], in[1], attrs);
  CudaQuery query{op::kConv2d, in, out, attrs, device};
  query.channels_last = true;
  const ImageBlocks blocks = *ImageBlocks::make(device, g);
  const Tensor x = made_on_device({n, h, w, c.channels}, 1),
               filter = made_on_device({o, k, k, c.channels}, 2);
  const Shape y_shape{n, g.oh, g.ow, o};
  const Tensor dy = made_on_device(y_shape, 3), y = made_on_device(y_shape, 4),
               want = made_on_device(y_shape, 5);
  const Tensor wide_x = *Tensor::allocate(device, {DType::kBF16, {blocks.image_elems()}});
  const Tensor wide_filter = *Tensor::allocate(device, {DType::kBF16, {blocks.filter_elems()}});
  const Tensor df = made_on_device(filter.shape(), 6), want_df = made_on_device(filter.shape(), 7);
  CudaStream stream(device);
  const DirectConv forward = *DirectConv::make(query, DnnPass::forward, g);
  const DirectConv back = *DirectConv::make(query, DnnPass::filter_grad, g);
  const DirectConv of_blocks = *DirectConv::make(query, DnnPass::forward, blocks.blocked());
  const DirectConv back_of_blocks = *DirectConv::make(query, DnnPass::filter_grad, blocks.blocked());
  ASSERT_TRUE(forward.enqueue(stream, x.raw(), filter.raw(), want.raw()).ok());
  ASSERT_TRUE(back.enqueue(stream, x.raw(), want_df.raw(), dy.raw()).ok());
  ASSERT_TRUE(blocks.block_image(stream, x.raw(), wide_x.raw()).ok());
  ASSERT_TRUE(blocks.block_filter(stream, filter.raw(), wide_filter.raw()).ok());
  ASSERT_TRUE(of_blocks.enqueue(stream, wide_x.raw(), wide_filter.raw(), y.raw()).ok());
  ASSERT_TRUE(back_of_blocks.enqueue(stream, wide_x.raw(), wide_filter.raw(), dy.raw()).ok());
  ASSERT_TRUE(blocks.unblock_filter(stream, wide_filter.raw(), df.raw()).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const auto expect = [&](const Tensor& got, const Tensor& wanted, const char* what) {
    op::testing::expect_close(op::testing::to_doubles(to_host(got)), op::testing::to_doubles(to_host(wanted)),
                              0.01, what);
  };
  expect(y, want, "forward");
  expect(df, want_df, "gradient of the filter");
}

TEST(CudaConvBlocks, ComeToTheSameSums) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  for (const Case& c : {Case{3, 7, 2, 2, 3, 1}, Case{3, 11, 4, 4, 2, 1}, Case{1, 3, 2, 1, 0, 1},
                        Case{4, 3, 2, 3, 1, 2}, Case{3, 2, 4, 4, 0, 1}}) {
    SCOPED_TRACE(testing::Message() << c.channels << " channels, kernel " << c.kernel << ", strides "
                                    << c.stride_h << " " << c.stride_w << ", dilation " << c.dilation);
    check(c);
  }
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
