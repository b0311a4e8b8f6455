// bias_add and bias_grad along dimension 1 of [n, c, inner...].
#include <algorithm>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

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

// Many rows of channels: rows in chunks, which do not depend on the width; chunks are added in their order.
constexpr std::int64_t kChunkRows = 256, kLeastChunks = 8;
std::int64_t chunks_of(const BiasShape& s) {
  const std::int64_t chunks = s.inner == 1 ? (s.n + kChunkRows - 1) / kChunkRows : 0;
  return chunks < kLeastChunks ? 0 : chunks;
}
std::size_t grad_bytes(const op::KernelQuery& q) {
  const BiasShape s = bias_shape(q.inputs[0].shape);
  return static_cast<std::size_t>(chunks_of(s) * s.c) * sizeof(float);
}
void run_grad_by_chunks(op::KernelArgs& args, const BiasShape& s, std::int64_t chunks) {
  const float* dy = f32_in(args, 0);
  auto* const parts = reinterpret_cast<float*>(args.workspace.data());
  for_slices(args.parallel, chunks, num_slices(chunks, s.n * s.c, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i)
                 channel_loops().sums[0](dy + i * kChunkRows * s.c,
                                         std::min(kChunkRows, s.n - i * kChunkRows), s.c, parts + i * s.c);
             });
  for (std::int64_t c = 0; c < s.c; ++c) {
    double total = 0;
    for (std::int64_t i = 0; i < chunks; ++i) total += static_cast<double>(parts[i * s.c + c]);
    f32_out(args, 0)[c] = static_cast<float>(total);
  }
}

// Channels are cut over slices, so that every width gives the same bits.
void run_grad(op::KernelArgs& args) {
  const BiasShape s = bias_shape(args.in(0).shape());
  if (const std::int64_t chunks = chunks_of(s); chunks > 0) return run_grad_by_chunks(args, s, chunks);
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

extern const op::KernelRow kBiasAddVector{
    .op = "bias_add", .name = "vector", .run = run_add, .applicable = all_f32};
extern const op::KernelRow kBiasGradVector{.op = "bias_grad",
                                           .name = "vector",
                                           .run = run_grad,
                                           .applicable = all_f32,
                                           .workspace_bytes = grad_bytes};

}  // namespace trireme::kernel
