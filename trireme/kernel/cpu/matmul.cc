// matmul of two matrices: one gemm per slice of the longer side of the output.
#include "trireme/kernel/cpu/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) {
  return all_f32(q) && fits_int32(q) && q.inputs[0].shape.rank() == 2 && q.inputs[1].shape.rank() == 2 &&
         gemm_usable();
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

void run(op::KernelArgs& args) {
  const bool ta = args.attrs.get_bool("transpose_a"), tb = args.attrs.get_bool("transpose_b");
  const Shape &a = args.in(0).shape(), &b = args.in(1).shape();
  const Gemm whole{.transpose_a = ta,
                   .transpose_b = tb,
                   .m = args.out(0).shape()[0],
                   .n = args.out(0).shape()[1],
                   .k = ta ? a[0] : a[1],
                   .a = f32_in(args, 0),
                   .lda = a[1],
                   .b = f32_in(args, 1),
                   .ldb = b[1],
                   .beta = 0,
                   .c = f32_out(args, 0),
                   .ldc = args.out(0).shape()[1]};
  const bool by_rows = whole.m >= whole.n;
  const std::int64_t side = by_rows ? whole.m : whole.n;
  // A slice narrower than a register block of the library gains nothing.
  constexpr std::int64_t kMinSide = 16;
  constexpr std::int64_t kWorkPerElem = 32;  // multiply-adds that cost about as much as touching one element
  const int slices =
      num_slices(side / kMinSide, whole.m * whole.n * whole.k / kWorkPerElem, args.parallel.width());
  for_slices(args.parallel, side, slices, [&](std::int64_t begin, std::int64_t end, int) {
    Gemm part = whole;
    if (by_rows) {
      part.m = end - begin;
      part.a += ta ? begin : begin * whole.lda;
      part.c += begin * whole.ldc;
    } else {
      part.n = end - begin;
      part.b += tb ? begin * whole.ldb : begin;
      part.c += begin;
    }
    gemm(part);
  });
}

}  // namespace

const op::KernelRow kMatmulGemm{
    .op = "matmul", .name = kGemmRowName, .run = run, .applicable = applicable, .prepare = prepare};

}  // namespace trireme::kernel
