// Layers whose elements look at a neighbourhood: Gaussian blur, local contrast normalisation, locally
// connected layers. One thread per element of the result, in the order of the reference kernels; gradients
// gather.
#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/nn/blur.h"
#include "trireme/op/nn/locally_connected.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;

// Weights of the window are a constant of the text: kRow, kHalf elements on either side of the middle.
constexpr const char* kBlurText = R"cuda(
typedef acc_t<T> A;

template <class S> __device__ A blurred(const S* plane, int h, int w, int i, int j) {
  const int top = max(i - kHalf, 0), bottom = min(i + kHalf + 1, h);
  const int left = max(j - kHalf, 0), right = min(j + kHalf + 1, w);
  A total = 0;
  for (int r = top; r < bottom; ++r)
    for (int c = left; c < right; ++c)
      total += (A)(kRow[r - i + kHalf] * kRow[c - j + kHalf]) * (A)load_acc(plane[(i64)r * w + c]);
  return total;
}

)cuda";

constexpr const char* kBlur = R"cuda(
extern "C" __global__ void blur(const T* __restrict__ x, T* __restrict__ y, i64 planes, int h, int w) {
  const i64 pixels = (i64)h * w;
  for (i64 at = first_index(); at < planes * pixels; at += grid_step()) {
    const i64 p = at % pixels;
    y[at] = store_acc<T>(blurred(x + (at - p), h, w, (int)(p / w), (int)(p % w)));
  }
}

)cuda";

constexpr const char* kMeans = R"cuda(
// Means over channels of x [samples, channels, h, w].
extern "C" __global__ void contrast_means(const T* __restrict__ x, A* __restrict__ means, i64 samples, i64 channels,
                                          i64 pixels) {
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const T* own = x + at / pixels * channels * pixels + at % pixels;
    A total = 0;
    for (i64 c = 0; c < channels; ++c) total += load_acc(own[c * pixels]);
    means[at] = total / (A)channels;
  }
}

)cuda";

constexpr const char* kSquares = R"cuda(
// Blurred means, and the mean square of what is left of x without them.
extern "C" __global__ void contrast_squares(const T* __restrict__ x, const A* __restrict__ means,
                                            A* __restrict__ local, A* __restrict__ squares, i64 samples, i64 channels,
                                            int h, int w) {
  const i64 pixels = (i64)h * w;
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const i64 p = at % pixels;
    const A mean = blurred(means + (at - p), h, w, (int)(p / w), (int)(p % w));
    const T* own = x + at / pixels * channels * pixels + p;
    A total = 0;
    for (i64 c = 0; c < channels; ++c) {
      const A v = load_acc(own[c * pixels]) - mean;
      total += v * v;
    }
    local[at] = mean;
    squares[at] = total / (A)channels;
  }
}

)cuda";

constexpr const char* kResult = R"cuda(
extern "C" __global__ void contrast_result(const T* __restrict__ x, const A* __restrict__ local,
                                           const A* __restrict__ squares, T* __restrict__ y, i64 samples, i64 channels,
                                           int h, int w, double threshold) {
  const i64 pixels = (i64)h * w;
  const A least = (A)(threshold * threshold);
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const i64 p = at % pixels, first = at / pixels * channels * pixels + p;
    const A square = blurred(squares + (at - p), h, w, (int)(p / w), (int)(p % w));
    const A deviation = sqrt(least < square ? square : least), mean = local[at];
    for (i64 c = 0; c < channels; ++c)
      y[first + c * pixels] = store_acc<T>((load_acc(x[first + c * pixels]) - mean) / deviation);
  }
}
)cuda";

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
         kBlurText;
}

Dim grid(std::int64_t n) { return {blocks_for(n, kThreads, 1, 1U << 22)}; }

// Geometry is a constant of the text: divisions by it are cheap. Samples are the fastest dimension of the
// threads, so that a warp reads each element of the filter once: the filter is larger than the images.
constexpr const char* kConnectedText = R"cuda(
typedef acc_t<T> A;
constexpr i64 kFilter = kC * kKh * kKw;  // elements of one position and output channel

// The output position whose tap k reads input position `at`, or -1.
__device__ i64 position_reading(i64 at, i64 k, i64 stride, i64 pad, i64 dilation, i64 out) {
  const i64 from = at + pad - k * dilation;
  return from < 0 || from % stride != 0 || from / stride >= out ? -1 : from / stride;
}

)cuda";

constexpr const char* kForward = R"cuda(
extern "C" __global__ void connected(const T* __restrict__ x, const T* __restrict__ filter, T* __restrict__ y) {
  for (i64 at = first_index(); at < kN * kO * kOh * kOw; at += grid_step()) {
    const i64 n = at % kN, ow = at / kN % kOw, oh = at / (kN * kOw) % kOh, o = at / (kN * kOw * kOh);
    const T* image = x + (n * kChannels + o / (kO / kGroups) * kC) * kH * kW;
    const T* taps = filter + ((oh * kOw + ow) * kO + o) * kFilter;
    A total = 0;
#pragma unroll 1
    for (i64 c = 0; c < kC; ++c) {
#pragma unroll 1
      for (i64 kh = 0; kh < kKh; ++kh) {
        const i64 ih = oh * kStrideH - kPadH + kh * kDilationH;
        if (ih < 0 || ih >= kH) continue;
        for (i64 kw = 0; kw < kKw; ++kw) {
          const i64 iw = ow * kStrideW - kPadW + kw * kDilationW;
          if (iw < 0 || iw >= kW) continue;
          total += load_acc(taps[(c * kKh + kh) * kKw + kw]) * load_acc(image[(c * kH + ih) * kW + iw]);
        }
      }
    }
    y[((n * kO + o) * kOh + oh) * kOw + ow] = store_acc<T>(total);
  }
}

)cuda";

constexpr const char* kInputGrad = R"cuda(
extern "C" __global__ void connected_input_grad(const T* __restrict__ filter, const T* __restrict__ dy,
                                                T* __restrict__ dx) {
  constexpr i64 kPerGroup = kO / kGroups;
  for (i64 at = first_index(); at < kN * kChannels * kH * kW; at += grid_step()) {
    const i64 n = at % kN, iw = at / kN % kW, ih = at / (kN * kW) % kH, channel = at / (kN * kW * kH);
    const i64 first = channel / kC * kPerGroup, c = channel % kC;
    A total = 0;
#pragma unroll 1
    for (i64 o = first; o < first + kPerGroup; ++o) {
#pragma unroll 1
      for (i64 kh = 0; kh < kKh; ++kh) {
        const i64 oh = position_reading(ih, kh, kStrideH, kPadH, kDilationH, kOh);
        if (oh < 0) continue;
        for (i64 kw = 0; kw < kKw; ++kw) {
          const i64 ow = position_reading(iw, kw, kStrideW, kPadW, kDilationW, kOw);
          if (ow < 0) continue;
          const A t = load_acc(filter[((oh * kOw + ow) * kO + o) * kFilter + (c * kKh + kh) * kKw + kw]);
          total += t * load_acc(dy[((n * kO + o) * kOh + oh) * kOw + ow]);
        }
      }
    }
    dx[((n * kChannels + channel) * kH + ih) * kW + iw] = store_acc<T>(total);
  }
}

)cuda";

constexpr const char* kFilterGrad = R"cuda(
extern "C" __global__ void connected_filter_grad(const T* __restrict__ x, const T* __restrict__ dy,
                                                 T* __restrict__ df) {
  for (i64 at = first_index(); at < kOh * kOw * kO * kFilter; at += grid_step()) {
    const i64 kw = at % kKw, kh = at / kKw % kKh, c = at / (kKw * kKh) % kC, o = at / kFilter % kO;
    const i64 ow = at / (kFilter * kO) % kOw, oh = at / (kFilter * kO * kOw);
    const i64 ih = oh * kStrideH - kPadH + kh * kDilationH, iw = ow * kStrideW - kPadW + kw * kDilationW;
    const i64 channel = o / (kO / kGroups) * kC + c;
    A total = 0;
    if (ih >= 0 && ih < kH && iw >= 0 && iw < kW) {
      const T* v = x + (channel * kH + ih) * kW + iw;
      const T* d = dy + (o * kOh + oh) * kOw + ow;
      for (i64 n = 0; n < kN; ++n) total += load_acc(v[n * kChannels * kH * kW]) * load_acc(d[n * kO * kOh * kOw]);
    }
    df[at] = store_acc<T>(total);
  }
}
)cuda";

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
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text + kBlur, "blur"));
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
  TR_ASSIGN_OR_RETURN(const Function* means, q.device.function(text + kMeans, "contrast_means"));
  TR_ASSIGN_OR_RETURN(const Function* squares, q.device.function(text + kSquares, "contrast_squares"));
  TR_ASSIGN_OR_RETURN(const Function* result, q.device.function(text + kResult, "contrast_result"));
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
  return make_connected(q, q.inputs[0], q.inputs[1], kForward, "connected");
}
Made make_locally_connected2d_input_grad(const CudaQuery& q) {
  return make_connected(q, q.outputs[0], q.inputs[0], kInputGrad, "connected_input_grad");
}
Made make_locally_connected2d_filter_grad(const CudaQuery& q) {
  return make_connected(q, q.inputs[0], q.outputs[0], kFilterGrad, "connected_filter_grad");
}

}  // namespace trireme::kernel::cuda
