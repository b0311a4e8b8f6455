// Elementwise ops over equal shapes.
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

// Broadcasting is left to the reference kernel.
bool equal_shapes(const op::KernelQuery& q) {
  for (const TensorType& t : q.inputs)
    if (t.shape != q.outputs[0].shape) return false;
  return all_f32(q);
}

template <auto Loop>
void run_binary(op::KernelArgs& args) {
  const float *a = f32_in(args, 0), *b = f32_in(args, 1);
  float* out = f32_out(args, 0);
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    (vector_loops().*Loop)(a + begin, b + begin, out + begin, end - begin);
  });
}

void run_relu(op::KernelArgs& args) {
  const float* x = f32_in(args, 0);
  float* out = f32_out(args, 0);
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    vector_loops().relu(x + begin, out + begin, end - begin);
  });
}

void run_scale(op::KernelArgs& args) {
  const float* x = f32_in(args, 0);
  float* out = f32_out(args, 0);
  const auto factor = static_cast<float>(args.attrs.get_float("factor"));
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    vector_loops().scale(x + begin, factor, out + begin, end - begin);
  });
}

}  // namespace

const op::KernelRow kAddVector{
    .op = "add", .name = "vector", .run = run_binary<&VectorLoops::add>, .applicable = equal_shapes};
const op::KernelRow kSubVector{
    .op = "sub", .name = "vector", .run = run_binary<&VectorLoops::sub>, .applicable = equal_shapes};
const op::KernelRow kMulVector{
    .op = "mul", .name = "vector", .run = run_binary<&VectorLoops::mul>, .applicable = equal_shapes};
const op::KernelRow kReluGradVector{.op = "relu_grad",
                                    .name = "vector",
                                    .run = run_binary<&VectorLoops::relu_grad>,
                                    .applicable = equal_shapes};
const op::KernelRow kReluVector{.op = "relu", .name = "vector", .run = run_relu, .applicable = equal_shapes};
const op::KernelRow kScaleVector{
    .op = "scale", .name = "vector", .run = run_scale, .applicable = equal_shapes};

}  // namespace trireme::kernel
