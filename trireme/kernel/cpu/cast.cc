// Conversions between f32 and the 16-bit floats: the same bits as the reference kernel.
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

bool is_pair(const op::KernelQuery& q) {
  const DType from = q.inputs[0].dtype, to = q.outputs[0].dtype;
  const auto half = [](DType d) { return d == DType::kBF16 || d == DType::kF16; };
  return (from == DType::kF32 && half(to)) || (half(from) && to == DType::kF32);
}

void run(op::KernelArgs& args) {
  const VectorLoops& loops = vector_loops();
  const Tensor &x = args.in(0), &y = args.out(0);
  TR_CHECK(x.is_contiguous() && y.is_contiguous());
  const bool narrows = x.dtype() == DType::kF32;
  const bool bf16 = (narrows ? y : x).dtype() == DType::kBF16;
  for_elems(args.parallel, y.shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    if (narrows) {
      const auto* from = reinterpret_cast<const float*>(x.raw()) + begin;
      auto* to = reinterpret_cast<std::uint16_t*>(y.raw()) + begin;
      (bf16 ? loops.f32_to_bf16 : loops.f32_to_f16)(from, to, end - begin);
    } else {
      const auto* from = reinterpret_cast<const std::uint16_t*>(x.raw()) + begin;
      auto* to = reinterpret_cast<float*>(y.raw()) + begin;
      (bf16 ? loops.bf16_to_f32 : loops.f16_to_f32)(from, to, end - begin);
    }
  });
}

}  // namespace

extern const op::KernelRow kCastVector{.op = "cast", .name = "vector", .run = run, .applicable = is_pair};

}  // namespace trireme::kernel
