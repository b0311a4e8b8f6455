// matmul and matmul_bias_act through cuBLASLt.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "trireme/kernel/cuda/matmul/blas.h"
#include "trireme/kernel/cuda/matmul/matmul_epilogue.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

// Matrices of a batch as nested loops, outermost first: how often, and the step of each operand in elements.
struct MatrixOffsets {
  std::int64_t count, a, b, c;
};

std::int64_t matrix_elems(const Shape& s) { return s.dim(-2) * s.dim(-1); }

// Dimensions before the last two, 0 steps where an operand is broadcast; neighbours that step alike become
// one.
std::vector<MatrixOffsets> batch_loops(const Shape& a, const Shape& b, const Shape& c) {
  const auto step = [&](const Shape& s, int d, std::int64_t& below) -> std::int64_t {
    const int own = d - (c.rank() - s.rank());
    if (own < 0) return 0;
    const std::int64_t now = below;
    below *= s[own];
    return s[own] == 1 ? 0 : now;
  };
  std::vector<MatrixOffsets> loops;  // innermost first
  std::int64_t ea = matrix_elems(a), eb = matrix_elems(b), ec = matrix_elems(c);
  for (int d = c.rank() - 3; d >= 0; --d) {
    const MatrixOffsets l{c[d], step(a, d, ea), step(b, d, eb), step(c, d, ec)};
    if (l.count == 1) continue;
    if (!loops.empty()) {
      MatrixOffsets& in = loops.back();
      if (l.a == in.a * in.count && l.b == in.b * in.count && l.c == in.c * in.count) {
        in.count *= l.count;
        continue;
      }
    }
    loops.push_back(l);
  }
  return {loops.rbegin(), loops.rend()};
}

// Offsets of the operands for every turn of all loops but the innermost.
std::vector<MatrixOffsets> outer_offsets(const std::vector<MatrixOffsets>& loops) {
  std::vector<MatrixOffsets> at{{1, 0, 0, 0}};
  for (std::size_t i = 0; i + 1 < loops.size(); ++i) {
    std::vector<MatrixOffsets> next;
    for (const MatrixOffsets& o : at)
      for (std::int64_t j = 0; j < loops[i].count; ++j)
        next.push_back({1, o.a + j * loops[i].a, o.b + j * loops[i].b, o.c + j * loops[i].c});
    at = std::move(next);
  }
  return at;
}

struct Plan {
  ProductSpec spec;
  std::vector<MatrixOffsets> offsets;
};

Plan plan_for(const CudaQuery& q) {
  const Shape &a = q.inputs[0].shape, &b = q.inputs[1].shape, &c = q.outputs[0].shape;
  Plan p;
  ProductSpec& s = p.spec;
  s.dtype = q.inputs[0].dtype;
  s.wide = q.outputs[0].dtype == DType::kF32;
  s.transpose_a = q.attrs.get_bool("transpose_a"), s.transpose_b = q.attrs.get_bool("transpose_b");
  s.m = c.dim(-2), s.n = c.dim(-1), s.k = a.dim(s.transpose_a ? -2 : -1);
  s.tf32 = q.tf32;
  s.algorithm = q.algorithm;
  if (c.num_elems() == 0) return p;
  const std::vector<MatrixOffsets> loops = batch_loops(a, b, c);
  p.offsets = outer_offsets(loops);
  if (loops.empty()) return p;
  const MatrixOffsets& inner = loops.back();
  if (inner.b == 0 && !s.transpose_a && inner.a == s.m * s.k && inner.c == s.m * s.n) {
    s.m *= inner.count;  // rows of all matrices against one b: a single, taller product
    return p;
  }
  s.batch = inner.count, s.stride_a = inner.a, s.stride_b = inner.b, s.stride_c = inner.c;
  return p;
}

}  // namespace

Made make_matmul(const CudaQuery& q) {
  const DType a = q.inputs[0].dtype, b = q.inputs[1].dtype, c = q.outputs[0].dtype;
  if (a != b || (c != a && (c != DType::kF32 || dtype_size(a) != 2)))
    return error(Code::kNotFound, "[kernel] op matmul has no CUDA kernel for {} and {} to {}", dtype_name(a),
                 dtype_name(b), dtype_name(c));
  const Plan plan = plan_for(q);
  if (plan.offsets.empty()) return make_kernel([](const CudaArgs&) { return Status(); });
  TR_ASSIGN_OR_RETURN(const Product product, Product::make(q.device, plan.spec));
  const auto size = static_cast<std::int64_t>(dtype_size(plan.spec.dtype)),
             size_c = static_cast<std::int64_t>(dtype_size(q.outputs[0].dtype));
  const auto enqueue = [product, offsets = plan.offsets, size, size_c](const CudaArgs& args) -> Status {
    for (const MatrixOffsets& at : offsets)
      TR_RETURN_IF_ERROR(product.enqueue(args.stream, args.in(0).raw() + at.a * size,
                                         args.in(1).raw() + at.b * size, args.out(0).raw() + at.c * size_c,
                                         nullptr, args.workspace));
    return {};
  };
  return make_kernel(enqueue, product.workspace_bytes());
}

// The bias lies along the columns, which is where cuBLASLt adds one. What it does not take gets a kernel of
// its own.
Made make_matmul_bias_act(const CudaQuery& q) {
  const ProductSpec spec = plan_for(q).spec;
  const bool relu = q.attrs.get_bool("relu");
  ProductSpec fused_spec = spec;
  fused_spec.bias = true, fused_spec.relu = relu;
  TR_ASSIGN_OR_RETURN(const Product fused, Product::make(q.device, fused_spec));
  if (fused.by_library()) {
    const auto enqueue = [fused](const CudaArgs& args) {
      return fused.enqueue(args.stream, args.in(0).raw(), args.in(1).raw(), args.out(0).raw(),
                           args.in(2).raw(), args.workspace);
    };
    return make_kernel(enqueue, fused.workspace_bytes());
  }
  if (q.algorithm > 0) return Status(Code::kUnavailable, "[cuda] cuBLASLt adds no bias to this product");
  TR_ASSIGN_OR_RETURN(const Product product, Product::make(q.device, spec));
  TR_ASSIGN_OR_RETURN(const BiasRelu finish, BiasRelu::make(q.device, q.outputs[0], spec.n, 1, relu));
  const auto enqueue = [product, finish](const CudaArgs& args) -> Status {
    TR_RETURN_IF_ERROR(product.enqueue(args.stream, args.in(0).raw(), args.in(1).raw(), args.out(0).raw(),
                                       nullptr, args.workspace));
    return finish.enqueue(args.stream, args.out(0).raw(), args.in(2).raw());
  };
  return make_kernel(enqueue, product.workspace_bytes());
}

}  // namespace trireme::kernel::cuda
