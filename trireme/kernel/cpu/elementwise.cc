// Elementwise arithmetic: one operand, or two that may broadcast.
#include <algorithm>

#include "trireme/kernel/cpu/broadcast.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/functions.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

template <auto Loops>
void run_binary(op::KernelArgs& args) {
  const float *a = f32_in(args, 0), *b = f32_in(args, 1);
  float* out = f32_out(args, 0);
  const Shape& result = args.out(0).shape();
  const BinaryLoops& loops = function_loops().*Loops;
  const Broadcast runs(args.in(0).shape(), args.in(1).shape(), result);
  const auto last = static_cast<std::size_t>(runs.rank - 1);
  const BinaryLoops::Loop loop = runs.a[last] == runs.b[last] ? loops.pairs
                                 : runs.a[last] == 0          ? loops.one_left
                                                              : loops.one_right;
  for_elems(args.parallel, result.num_elems(), [&](std::int64_t begin, std::int64_t end) {
    runs.for_runs(begin, end, [&](std::int64_t at_a, std::int64_t at_b, std::int64_t at, std::int64_t n) {
      loop(a + at_a, b + at_b, out + at, n);
    });
  });
}

// Values of bf16 are widened, added and rounded, a block at a time.
void run_add_bf16(op::KernelArgs& args) {
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  const auto halves = [](const Tensor& t) { return reinterpret_cast<std::uint16_t*>(t.raw()); };
  const std::uint16_t *a = halves(args.in(0)), *b = halves(args.in(1));
  std::uint16_t* out = halves(args.out(0));
  const VectorLoops& loops = vector_loops();
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kBlock = 512;
    float left[kBlock], right[kBlock];
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t n = std::min(kBlock, end - at);
      loops.bf16_to_f32(a + at, left, n);
      loops.bf16_to_f32(b + at, right, n);
      loops.add(left, right, left, n);
      loops.f32_to_bf16(left, out + at, n);
    }
  });
}
void run_add(op::KernelArgs& args) {
  (args.out(0).dtype() == DType::kBF16 ? run_add_bf16 : run_binary<&FunctionLoops::add>)(args);
}
bool can_add(const op::KernelQuery& q) {
  return all_f32(q) || (all_of_dtype(q, DType::kBF16) && q.inputs[0].shape == q.inputs[1].shape);
}

void run_relu_grad(op::KernelArgs& args) {
  const float *dy = f32_in(args, 0), *y = f32_in(args, 1);
  float* out = f32_out(args, 0);
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    vector_loops().relu_grad(dy + begin, y + begin, out + begin, end - begin);
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

template <auto Loops>
constexpr op::KernelRow binary_row(const char* op) {
  return {.op = op, .name = "vector", .run = run_binary<Loops>, .applicable = all_f32};
}

bool equal_shapes(const op::KernelQuery& q) { return all_f32(q) && q.inputs[0].shape == q.inputs[1].shape; }

}  // namespace

extern const op::KernelRow kAddVector{.op = "add", .name = "vector", .run = run_add, .applicable = can_add};
extern const op::KernelRow kSubVector = binary_row<&FunctionLoops::sub>("sub");
extern const op::KernelRow kMulVector = binary_row<&FunctionLoops::mul>("mul");
extern const op::KernelRow kDivVector = binary_row<&FunctionLoops::div>("div");
extern const op::KernelRow kMaximumVector = binary_row<&FunctionLoops::maximum>("maximum");
extern const op::KernelRow kMinimumVector = binary_row<&FunctionLoops::minimum>("minimum");
extern const op::KernelRow kSquaredDifferenceVector =
    binary_row<&FunctionLoops::squared_difference>("squared_difference");
extern const op::KernelRow kReluGradVector{
    .op = "relu_grad", .name = "vector", .run = run_relu_grad, .applicable = equal_shapes};
extern const op::KernelRow kReluVector{
    .op = "relu", .name = "vector", .run = run_relu, .applicable = all_f32};
extern const op::KernelRow kScaleVector{
    .op = "scale", .name = "vector", .run = run_scale, .applicable = all_f32};

}  // namespace trireme::kernel
