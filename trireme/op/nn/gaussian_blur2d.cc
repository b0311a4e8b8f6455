// Every plane of x [N,C,H,W] blurred by a Gaussian window.
#include <algorithm>
#include <cmath>

#include "trireme/op/nn/blur.h"
#include "trireme/op/nn/window_sum.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace detail {
std::vector<AttrSpec> blur_attrs() {
  return {{"window", std::int64_t{5}, "rows and columns of the window, odd"},
          {"sigma", 1.0, "standard deviation in pixels"}};
}

Status expect_blur(const TensorType& x, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  const std::int64_t window = attrs.get_int("window");
  constexpr std::int64_t kLargest = 1023;  // a plane's cost grows with its square
  if (window < 1 || window > kLargest || window % 2 == 0) {
    return error(Code::kInvalid, "attribute 'window': got {}, expected an odd number up to {}", window,
                 kLargest);
  }
  const double sigma = attrs.get_float("sigma");
  if (std::isfinite(sigma) && sigma > 0) return ok_status();
  return error(Code::kInvalid, "attribute 'sigma': got {}, expected a finite value above 0", sigma);
}

std::vector<double> blur_row(const Attrs& attrs) {
  const std::int64_t window = attrs.get_int("window"), half = window / 2;
  const double sigma = attrs.get_float("sigma");
  std::vector<double> row(idx(window));
  double total = 0;
  for (std::int64_t u = 0; u < window; ++u) {
    const double off = static_cast<double>(u - half) / sigma;
    total += row[idx(u)] = std::exp(-off * off / 2);
  }
  for (double& v : row) v /= total;
  return row;
}

Value cut_blur(CutBuilder& b, Value x, int dim, const Attrs& attrs) {
  const Attrs own{{"window", attrs.get_int("window")}, {"sigma", attrs.get_float("sigma")}};
  const std::int64_t half = own.get_int("window") / 2;
  return with_neighbors(b, kGaussianBlur2d, x, dim, half, half, own);
}

double blur_taps(std::int64_t h, std::int64_t w, std::int64_t window) {
  return window_taps(h, window / 2, window / 2) * window_taps(w, window / 2, window / 2);
}
}  // namespace detail

namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_blur(in[0], attrs));
  return std::vector{in[0]};
}

Result<Grads> grad(GradBuilder& g) { return Grads{g.add(kGaussianBlur2d, {g.grad_output(0)}, g.attrs())}; }

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const Strides& s = x.strides();
  const std::int64_t h = x.shape()[2], w = x.shape()[3], planes = x.shape()[0] * x.shape()[1];
  const std::vector<double> row = blur_row(a.attrs);
  dispatch_float(x.dtype(), [&]<typename T>() {
    T* out = a.out(0).data<T>();
    for (std::int64_t p = 0; p < planes; ++p) {
      const T* plane = x.data<T>() + p / x.shape()[1] * s[0] + p % x.shape()[1] * s[1];
      const auto at = [&](std::int64_t r, std::int64_t c) { return plane[r * s[2] + c * s[3]]; };
      for (std::int64_t i = 0; i < h * w; ++i)
        *out++ = static_cast<T>(blur_at<Acc<T>>(row, h, w, i / w, i % w, at));
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const Shape& s = in[0].shape;
  const double taps = static_cast<double>(s[0] * s[1]) * blur_taps(s[2], s[3], attrs.get_int("window"));
  return {.flops = 2 * taps,
          .bytes = io_bytes(in, out),
          .work = 2 * taps,
          .depth = taps > 0 ? log_depth(taps / elems(in[0])) : 0};
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return with_sides({{{0}, {0}}, {{1}, {1}}}, 1); }

Cut cut(CutBuilder& b) { return std::vector{cut_blur(b, b.input(0), b.option().inputs[0].dim, b.attrs())}; }
}  // namespace

const OpDef kGaussianBlur2d{.name = "gaussian_blur2d",
                            .doc =
                                "Every plane of x [N,C,H,W] blurred by a Gaussian window that sums to 1; "
                                "zeros outside. Its gradient is the same blur.",
                            .family = "nn",
                            .num_inputs = 1,
                            .attrs = blur_attrs(),
                            .infer = infer,
                            .grad = grad,
                            .reference = run,
                            .cost = cost,
                            .layout = layout,
                            .linear = {.inputs = 1},
                            .cut = cut};

}  // namespace trireme::op
