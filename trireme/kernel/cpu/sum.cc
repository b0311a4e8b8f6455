// sum over all elements: one partial sum per slice, added in slice order.
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) {
  return all_f32(q) && q.inputs[0].shape.num_elems() > 0 && q.outputs[0].shape.num_elems() == 1;
}

std::size_t workspace(const op::KernelQuery& q) { return static_cast<std::size_t>(q.width) * sizeof(double); }

void run(op::KernelArgs& args) {
  const float* x = f32_in(args, 0);
  auto* partial = reinterpret_cast<double*>(args.workspace.data());
  const std::int64_t n = args.in(0).shape().num_elems();
  const int slices = num_slices(n, n, args.parallel.width());
  for_slices(args.parallel, n, slices, [&](std::int64_t begin, std::int64_t end, int slice) {
    partial[slice] = vector_loops().sum(x + begin, end - begin);
  });
  double total = 0;
  for (int slice = 0; slice < slices; ++slice) total += partial[slice];
  f32_out(args, 0)[0] = static_cast<float>(total);
}

}  // namespace

const op::KernelRow kSumVector{
    .op = "sum", .name = "vector", .run = run, .applicable = applicable, .workspace_bytes = workspace};

}  // namespace trireme::kernel
