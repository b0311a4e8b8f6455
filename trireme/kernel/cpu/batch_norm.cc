// batch_norm, its gradient, and its use with given statistics: channels are cut over slices, a channel goes
// plane by plane. Sums are in lanes within a plane and in f64 over the planes.
#include <cmath>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/row_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

struct Planes {
  std::int64_t samples, channels, size;

  explicit Planes(const Shape& x) : samples(x[0]), channels(x[1]), size(1) {
    for (int d = 2; d < x.rank(); ++d) size *= x[d];
  }
  std::int64_t elems() const { return samples * channels * size; }
  float count() const { return static_cast<float>(samples * size); }
  std::int64_t at(std::int64_t sample, std::int64_t channel) const {
    return (sample * channels + channel) * size;
  }
};

// Planes of a few elements would be all calls.
bool has_planes(const op::KernelQuery& q) {
  const Planes p(q.inputs[0].shape);
  return all_f32(q) && p.size >= 8 && p.samples > 0;
}

// Sum of part(offset of a plane) over the planes of a channel.
template <typename Part>
double over_samples(const Planes& p, std::int64_t channel, const Part& part) {
  double total = 0;
  for (std::int64_t n = 0; n < p.samples; ++n) total += part(p.at(n, channel));
  return total;
}

template <typename Fn>
void for_channels(op::KernelArgs& args, const Planes& p, const Fn& fn) {
  for_slices(args.parallel, p.channels, num_slices(p.channels, p.elems(), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t c = begin; c < end; ++c) fn(c);
             });
}

void run_norm(op::KernelArgs& args) {
  const Planes p(args.in(0).shape());
  const float *x = f32_in(args, 0), *scale = f32_in(args, 1), *bias = f32_in(args, 2);
  float *y = f32_out(args, 0), *means = f32_out(args, 1), *vars = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  const auto count = static_cast<double>(p.count());
  const RowLoops& loops = row_loops();
  for_channels(args, p, [&](std::int64_t c) {
    const double sum =
        over_samples(p, c, [&](std::int64_t at) { return vector_loops().sum(x + at, p.size); });
    const auto mean = static_cast<float>(sum / count);
    const double squares =
        over_samples(p, c, [&](std::int64_t at) { return loops.sum_off_squares(x + at, mean, p.size); });
    const auto var = static_cast<float>(squares / count);
    const float inv = 1 / std::sqrt(var + eps);
    for (std::int64_t n = 0; n < p.samples; ++n)
      loops.affine(x + p.at(n, c), mean, inv, scale[c], bias[c], y + p.at(n, c), p.size);
    means[c] = mean;
    vars[c] = var;
  });
}

void run_grad(op::KernelArgs& args) {
  const Planes p(args.in(0).shape());
  const float *x = f32_in(args, 0), *scale = f32_in(args, 1), *mean = f32_in(args, 2);
  const float *var = f32_in(args, 3), *dy = f32_in(args, 4);
  float *dx = f32_out(args, 0), *dscale = f32_out(args, 1), *dbias = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  const RowLoops& loops = row_loops();
  for_channels(args, p, [&](std::int64_t c) {
    const float inv = 1 / std::sqrt(var[c] + eps);
    const double sum =
        over_samples(p, c, [&](std::int64_t at) { return vector_loops().sum(dy + at, p.size); });
    const double dot = over_samples(
        p, c, [&](std::int64_t at) { return loops.dot_off(dy + at, x + at, mean[c], inv, p.size); });
    dbias[c] = static_cast<float>(sum);
    dscale[c] = static_cast<float>(dot);
    const float mean_g = scale[c] * dbias[c] / p.count(), mean_dot = scale[c] * dscale[c] / p.count();
    for (std::int64_t n = 0; n < p.samples; ++n)
      loops.affine_grad(x + p.at(n, c), dy + p.at(n, c), mean[c], inv, scale[c], mean_g, mean_dot,
                        dx + p.at(n, c), p.size);
  });
}

void run_inference(op::KernelArgs& args) {
  const Planes p(args.in(0).shape());
  const float *x = f32_in(args, 0), *scale = f32_in(args, 1), *bias = f32_in(args, 2);
  const float *mean = f32_in(args, 3), *var = f32_in(args, 4);
  float* y = f32_out(args, 0);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  for_channels(args, p, [&](std::int64_t c) {
    const float gain = scale[c] / std::sqrt(var[c] + eps);
    for (std::int64_t n = 0; n < p.samples; ++n)
      row_loops().affine(x + p.at(n, c), mean[c], gain, 1, bias[c], y + p.at(n, c), p.size);
  });
}

}  // namespace

extern const op::KernelRow kBatchNormVector{
    .op = "batch_norm", .name = "vector", .run = run_norm, .applicable = has_planes};
extern const op::KernelRow kBatchNormGradVector{
    .op = "batch_norm_grad", .name = "vector", .run = run_grad, .applicable = has_planes};
extern const op::KernelRow kBatchNormInferenceVector{
    .op = "batch_norm_inference", .name = "vector", .run = run_inference, .applicable = has_planes};

}  // namespace trireme::kernel
