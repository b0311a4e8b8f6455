// Local contrast normalisation of x [N,C,H,W], subtractive and divisive (Jarrett et al., "What is the Best
// Multi-Stage Architecture for Object Recognition?", 2009; with the constant threshold of Le et al.,
// "Building High-level Features Using Large Scale Unsupervised Learning", 2012):
//   v = x - B(x),  y = v / max(threshold, sqrt(B(v^2))),
// where B averages over all channels and blurs by a Gaussian window (blur.h): sum over i, p, q of w[p][q]
// x[i][j+p][k+q] with weights that sum to 1 over channels and window, the same for every channel.
#include <cmath>

#include "trireme/op/detail/math.h"
#include "trireme/op/nn/blur.h"
#include "trireme/op/nn/expr.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_blur(in[0], attrs));
  const double threshold = attrs.get_float("threshold");
  if (!std::isfinite(threshold) || threshold <= 0) {
    return error(Code::kInvalid, "attribute 'threshold': got {}, expected a finite value above 0", threshold);
  }
  return std::vector{in[0]};
}

// With d = sqrt(max(threshold^2, q)), q = B(v^2) and B' the adjoint of B (blur, then spread over channels):
// dq = -sum over channels of dy y / (2 d^2) where q is above threshold^2, dv = dy / d + 2 v B'(dq),
// dx = dv - B'(sum over channels of dv).
Result<Grads> grad(GradBuilder& g) {
  const Value x = g.input(0), y = g.output(0), dy = g.grad_output(0);
  const double threshold = g.attrs().get_float("threshold");
  const Attrs window{{"window", g.attrs().get_int("window")}, {"sigma", g.attrs().get_float("sigma")}};
  const std::vector<std::int64_t> channels{1};
  const double share = 1 / static_cast<double>(g.type(x).shape[1]);
  const auto blur = [&](Value v) { return g.add(kGaussianBlur2d, {v}, window); };
  const Value v = g.sub(x, blur(mean_over(g, x, channels)));
  const Value q = blur(mean_over(g, g.add(kSquare, {v}), channels));
  const Value above = g.add(kRelu, {plus(g, q, -threshold * threshold)});
  const Value d2 = plus(g, above, threshold * threshold), d = g.add(kSqrt, {d2});
  const Value dd2 = g.scale(quotient(g, sum_over(g, g.mul(dy, y), channels), d2), -0.5);
  const Value dq = g.add(kReluGrad, {dd2, above});
  const Value dv = g.sum(quotient(g, dy, d), g.scale(g.mul(v, blur(dq)), 2 * share));
  return Grads{g.sub(dv, g.scale(blur(sum_over(g, dv, channels)), share))};
}

// Three planes of sums, wide enough for any dtype.
std::size_t workspace(TypeSpan in, const Attrs&) {
  return static_cast<std::size_t>(in[0].shape[2] * in[0].shape[3]) * 3 * sizeof(double);
}

template <typename T>
void normalise_sample(const T* x, const Strides& s, const Shape& shape, std::span<const double> row,
                      double threshold, Acc<T>* planes, T* y) {
  using A = Acc<T>;
  const std::int64_t channels = shape[1], h = shape[2], w = shape[3], pixels = h * w;
  const A count = static_cast<A>(channels), least = static_cast<A>(threshold * threshold);
  A *means = planes, *blurred = planes + pixels, *squares = planes + 2 * pixels;
  const auto at = [&](std::int64_t c, std::int64_t p) {
    return static_cast<A>(x[c * s[1] + p / w * s[2] + p % w * s[3]]);
  };
  const auto blur = [&](const A* plane, std::int64_t p) {
    return blur_at<A>(row, h, w, p / w, p % w,
                      [&](std::int64_t r, std::int64_t c) { return plane[r * w + c]; });
  };
  for (std::int64_t p = 0; p < pixels; ++p) {
    A total = 0;
    for (std::int64_t c = 0; c < channels; ++c) total += at(c, p);
    means[p] = total / count;
  }
  for (std::int64_t p = 0; p < pixels; ++p) {
    blurred[p] = blur(means, p);
    A total = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const A v = at(c, p) - blurred[p];
      total += v * v;
    }
    squares[p] = total / count;
  }
  for (std::int64_t p = 0; p < pixels; ++p) means[p] = math::sqrt(std::max(least, blur(squares, p)));
  for (std::int64_t i = 0; i < channels * pixels; ++i) {
    const std::int64_t p = i % pixels;
    y[i] = static_cast<T>((at(i / pixels, p) - blurred[p]) / means[p]);
  }
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const std::vector<double> row = blur_row(a.attrs);
  const double threshold = a.attrs.get_float("threshold");
  dispatch_float(x.dtype(), [&]<typename T>() {
    const std::int64_t size = x.shape()[1] * x.shape()[2] * x.shape()[3];
    for (std::int64_t n = 0; size > 0 && n < x.shape()[0]; ++n) {
      normalise_sample<T>(x.data<T>() + n * x.strides()[0], x.strides(), x.shape(), row, threshold,
                          reinterpret_cast<Acc<T>*>(a.workspace.data()), a.out(0).data<T>() + n * size);
    }
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const Shape& s = in[0].shape;
  const double n = elems(in[0]), samples = n > 0 ? static_cast<double>(s[0]) : 0;
  const double taps = samples * blur_taps(s[2], s[3], attrs.get_int("window"));
  const double pixels = samples * static_cast<double>(s[2] * s[3]), flops = 6 * n + 4 * pixels + 4 * taps;
  const double depth = n > 0 ? 2 * (log_depth(static_cast<double>(s[1])) + log_depth(taps / pixels)) + 4 : 0;
  return {.flops = flops, .bytes = io_bytes(in, out), .work = flops, .depth = depth};
}

// Samples; rewritten rows and columns, where a position needs neighbors, and channels, whose means take all
// of them.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  return with_sides({{{0}, {0}}, {{1}, {1}, /*rewritten=*/true}}, 1);
}

// The formula, with the blur of means that every position can make.
Cut cut(CutBuilder& b) {
  const int dim = b.option().inputs[0].dim;
  const TensorType& whole = b.whole_input(0);
  const Value x = widened(b, b.input(0));
  const DType dtype = b.type(x).dtype;
  const auto number = [&](double v) { return scalar(b, dtype, v); };
  const auto blurred_mean = [&](Value v) {
    const Value sum = dim == 1 ? whole_sum_over(b, v, {1}) : sum_over(b, v, {1});
    const Value mean = b.add(kDiv, {sum, number(static_cast<double>(whole.shape[1]))});
    const Attrs window{{"window", b.attrs().get_int("window")}, {"sigma", b.attrs().get_float("sigma")}};
    return dim == 1 ? b.add(kGaussianBlur2d, {mean}, window) : cut_blur(b, mean, dim, window);
  };
  const double threshold = b.attrs().get_float("threshold");
  const Value v = b.add(kSub, {x, blurred_mean(x)});
  const Value square = b.add(kMaximum, {blurred_mean(b.add(kSquare, {v})), number(threshold * threshold)});
  return std::vector{cast_to(b, b.add(kDiv, {v, b.add(kSqrt, {square})}), whole.dtype)};
}

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = blur_attrs();
  specs.push_back({"threshold", 0.01, "least deviation to divide by"});
  return specs;
}
}  // namespace

const OpDef kLocalContrastNorm{
    .name = "local_contrast_norm",
    .doc =
        "x [N,C,H,W] less its local mean, divided by max(threshold, local deviation); both over all "
        "channels and a Gaussian window.",
    .family = "nn",
    .num_inputs = 1,
    .attrs = attrs(),
    .infer = infer,
    .grad = grad,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout,
    .cut = cut};

}  // namespace trireme::op
