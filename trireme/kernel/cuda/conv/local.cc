// Layers whose elements look at a neighbourhood: Gaussian blur, local contrast normalisation, locally
// connected layers. One thread per element of the result, in the order of the reference kernels; gradients
// gather.
#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/nn/blur.h"
#include "trireme/op/nn/locally_connected.h"

namespace trireme::kernel::cuda {

extern const char kBlurredText[], kBlurText[], kContrastMeansText[], kContrastSquaresText[],
    kContrastResultText[], kConnectedText[], kConnectedForwardText[], kConnectedInputGradText[],
    kConnectedFilterGradText[];  // local.cu

namespace {

constexpr int kThreads = 256;

Result<std::string> blur_text(const CudaQuery& q) {
  const Shape& s = q.inputs[0].shape;
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  if (s[2] > kLargest || s[3] > kLargest)
    return error(Code::kInvalid, "[kernel] {}: got {} x {} images, expected sides below 2^30 on a GPU",
                 q.def.name, s[2], s[3]);
  const std::vector<double> row = op::detail::blur_row(q.attrs);
  std::string weights;
  for (const double v : row) weights += fmt::format("{:.17g}, ", v);
  return fmt::format("typedef {} T; constexpr int kHalf = {};\n__constant__ double kRow[] = {{{}}};\n",
                     cuda_type(q.inputs[0].dtype), row.size() / 2, weights) +
         kBlurredText;
}

Dim grid(std::int64_t n) { return {blocks_for(n, kThreads, 1, 1U << 22)}; }

Made make_connected(const CudaQuery& q, const TensorType& x, const TensorType& filter, const char* text,
                    const char* name) {
  TR_ASSIGN_OR_RETURN(const op::detail::ConvGeometry g, op::detail::local_geometry(x, filter, q.attrs));
  const std::int64_t n = q.outputs[0].shape.num_elems();
  if (n == 0) return make_kernel([](const CudaArgs&) -> Status { return ok_status(); });
  const std::string head = fmt::format(
      "typedef {} T;\nconstexpr i64 kN = {}, kChannels = {}, kH = {}, kW = {}, kO = {}, kC = {}, kKh = {}, "
      "kKw = {};\n"
      "constexpr i64 kOh = {}, kOw = {}, kStrideH = {}, kStrideW = {}, kPadH = {}, kPadW = {};\n"
      "constexpr i64 kDilationH = {}, kDilationW = {}, kGroups = {};\n",
      cuda_type(x.dtype), g.n, g.c, g.h, g.w, g.o, g.cg, g.kh, g.kw, g.oh, g.ow, g.stride_h, g.stride_w,
      g.pad_h, g.pad_w, g.dilation_h, g.dilation_w, g.groups);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(head + kConnectedText + text, name));
  return make_kernel([=](const CudaArgs& a) -> Status {
    return launch(a.stream, *f, grid(n), {kThreads}, 0, a.in(0).raw(), a.in(1).raw(), a.out(0).raw());
  });
}

}  // namespace

Made make_gaussian_blur2d(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const std::string text, blur_text(q));
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text + kBlurText, "blur"));
  const Shape s = q.inputs[0].shape;
  const std::int64_t n = s.num_elems(), planes = s[0] * s[1];
  const int h = static_cast<int>(s[2]), w = static_cast<int>(s[3]);
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, grid(n), {kThreads}, 0, a.in(0).raw(), a.out(0).raw(), planes, h, w);
  });
}

Made make_local_contrast_norm(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const std::string text, blur_text(q));
  TR_ASSIGN_OR_RETURN(const Function* means, q.device.function(text + kContrastMeansText, "contrast_means"));
  TR_ASSIGN_OR_RETURN(const Function* squares,
                      q.device.function(text + kContrastSquaresText, "contrast_squares"));
  TR_ASSIGN_OR_RETURN(const Function* result,
                      q.device.function(text + kContrastResultText, "contrast_result"));
  const Shape s = q.inputs[0].shape;
  const std::int64_t samples = s[0], channels = s[1], pixels = s[2] * s[3], all = s.num_elems();
  const int h = static_cast<int>(s[2]), w = static_cast<int>(s[3]);
  const double threshold = q.attrs.get_float("threshold");
  const std::size_t size = q.inputs[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  const std::size_t plane = static_cast<std::size_t>(samples * pixels) * size;
  const auto enqueue = [=](const CudaArgs& a) -> Status {
    if (all == 0) return ok_status();
    const Dim blocks = grid(samples * pixels);
    std::byte *x = a.in(0).raw(), *mean = a.workspace, *local = mean + plane, *square = local + plane;
    TR_RETURN_IF_ERROR(launch(a.stream, *means, blocks, {kThreads}, 0, x, mean, samples, channels, pixels));
    TR_RETURN_IF_ERROR(
        launch(a.stream, *squares, blocks, {kThreads}, 0, x, mean, local, square, samples, channels, h, w));
    return launch(a.stream, *result, blocks, {kThreads}, 0, x, local, square, a.out(0).raw(), samples,
                  channels, h, w, threshold);
  };
  return make_kernel(enqueue, 3 * plane);
}

Made make_locally_connected2d(const CudaQuery& q) {
  return make_connected(q, q.inputs[0], q.inputs[1], kConnectedForwardText, "connected");
}
Made make_locally_connected2d_input_grad(const CudaQuery& q) {
  return make_connected(q, q.outputs[0], q.inputs[0], kConnectedInputGradText, "connected_input_grad");
}
Made make_locally_connected2d_filter_grad(const CudaQuery& q) {
  return make_connected(q, q.inputs[0], q.outputs[0], kConnectedFilterGradText, "connected_filter_grad");
}

}  // namespace trireme::kernel::cuda
