// bias_add and bias_grad along dimension 1 of [n, c, inner...].
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

struct BiasShape {
  std::int64_t n, c, inner;
};
BiasShape bias_shape(const Shape& x) {
  std::int64_t inner = 1;
  for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  return {x[0], x[1], inner};
}

void run_add(op::KernelArgs& args) {
  const BiasShape s = bias_shape(args.in(0).shape());
  const float *x = f32_in(args, 0), *bias = f32_in(args, 1);
  float* out = f32_out(args, 0);
  const VectorLoops& loops = vector_loops();
  const bool by_rows = s.inner == 1;  // one run of c elements per sample instead of c runs of one
  const std::int64_t run = by_rows ? s.c : s.inner;
  const std::int64_t num_runs = by_rows ? s.n : s.n * s.c;
  for_slices(args.parallel, num_runs, num_slices(num_runs, num_runs * run, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 if (by_rows)
                   loops.add(x + i * run, bias, out + i * run, run);
                 else
                   loops.add_scalar(x + i * run, bias[i % s.c], out + i * run, run);
               }
             });
}

// Channels are cut over slices, so that every width gives the same bits.
void run_grad(op::KernelArgs& args) {
  const BiasShape s = bias_shape(args.in(0).shape());
  const float* dy = f32_in(args, 0);
  float* out = f32_out(args, 0);
  const VectorLoops& loops = vector_loops();
  for_slices(args.parallel, s.c, num_slices(s.c, s.n * s.c * s.inner, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               if (s.inner == 1) {
                 for (std::int64_t c = begin; c < end; ++c) out[c] = 0;
                 for (std::int64_t i = 0; i < s.n; ++i)
                   loops.add(out + begin, dy + i * s.c + begin, out + begin, end - begin);
                 return;
               }
               for (std::int64_t c = begin; c < end; ++c) {
                 double total = 0;
                 for (std::int64_t i = 0; i < s.n; ++i)
                   total += loops.sum(dy + (i * s.c + c) * s.inner, s.inner);
                 out[c] = static_cast<float>(total);
               }
             });
}

}  // namespace

const op::KernelRow kBiasAddVector{.op = "bias_add", .name = "vector", .run = run_add, .applicable = all_f32};
const op::KernelRow kBiasGradVector{
    .op = "bias_grad", .name = "vector", .run = run_grad, .applicable = all_f32};

}  // namespace trireme::kernel
