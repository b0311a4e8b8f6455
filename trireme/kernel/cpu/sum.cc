// sum and mean over runs of dimensions: all of them, [kept, reduced, kept] or [reduced, kept, reduced], any
// of which may be missing. Rows that lie dense are added in lanes, the others element by element in the order
// of the reference.
#include <algorithm>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/functions.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::kernel {
namespace {

// x as [first, outer, reduced, inner]: `first` and `reduced` are folded. Either first or inner is 1.
struct Folds {
  std::int64_t first = 1, outer = 1, reduced = 1, inner = 1;
  bool fits = true;

  Folds(const TensorType& x, const op::Attrs& attrs) {
    const auto axes = op::detail::resolve_axes(x, attrs);
    std::int64_t* const groups[]{&first, &outer, &reduced, &inner};
    int at = 0;  // even groups are folded
    fits = axes.ok();
    for (int d = 0; fits && d < x.shape.rank(); ++d) {
      if (x.shape[d] == 1) continue;
      const bool folded = axes->reduced[static_cast<std::size_t>(d)];
      if (folded != (at % 2 == 0)) ++at;
      fits = at < 4;
      if (fits) *groups[at] *= x.shape[d];
    }
    if (outer == 1 && inner == 1) std::swap(first, reduced);  // everything
    if (outer == 1 && inner > 1 && reduced == 1) std::swap(first, reduced);
    if (first > 1 && inner > 1) fits = false;
    if (first > 1 && reduced == 1) {  // [first, outer]: columns
      std::swap(first, reduced);
      std::swap(outer, inner);
    }
  }
};

bool applicable(const op::KernelQuery& q) {
  return all_f32(q) && q.inputs[0].shape.num_elems() > 0 && Folds(q.inputs[0], q.attrs).fits;
}

std::size_t workspace(const op::KernelQuery& q) { return static_cast<std::size_t>(q.width) * sizeof(double); }

// One partial sum per slice, added in slice order.
void fold_all(op::KernelArgs& args, std::int64_t n) {
  const float* x = f32_in(args, 0);
  auto* partial = reinterpret_cast<double*>(args.workspace.data());
  const int slices = num_slices(n, n, args.parallel.width());
  for_slices(args.parallel, n, slices, [&](std::int64_t begin, std::int64_t end, int slice) {
    partial[slice] = vector_loops().sum(x + begin, end - begin);
  });
  double total = 0;
  for (int slice = 0; slice < slices; ++slice) total += partial[slice];
  f32_out(args, 0)[0] = static_cast<float>(total);
}

void fold_rows(op::KernelArgs& args, const Folds& f) {
  const float* x = f32_in(args, 0);
  float* out = f32_out(args, 0);
  const std::int64_t elems = f.first * f.outer * f.reduced;
  for_slices(args.parallel, f.outer, num_slices(f.outer, elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t o = begin; o < end; ++o) {
                 double total = 0;
                 for (std::int64_t i = 0; i < f.first; ++i)
                   total += vector_loops().sum(x + (i * f.outer + o) * f.reduced, f.reduced);
                 out[o] = static_cast<float>(total);
               }
             });
}

void fold_columns(op::KernelArgs& args, const Folds& f) {
  const float* x = f32_in(args, 0);
  float* out = f32_out(args, 0);
  const std::int64_t columns = f.outer * f.inner;
  for_slices(args.parallel, columns, num_slices(columns, columns * f.reduced, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t at = begin; at < end;) {
                 const std::int64_t o = at / f.inner, column = at % f.inner;
                 const std::int64_t n = std::min(f.inner - column, end - at);
                 std::fill(out + at, out + at + n, 0.0F);
                 const float* from = x + o * f.reduced * f.inner + column;
                 for (std::int64_t i = 0; i < f.reduced; ++i)
                   vector_loops().add(out + at, from + i * f.inner, out + at, n);
                 at += n;
               }
             });
}

void run_sum(op::KernelArgs& args) {
  const Folds f(args.in(0).type(), args.attrs);
  if (f.inner > 1) return fold_columns(args, f);
  if (f.outer > 1) return fold_rows(args, f);
  fold_all(args, args.in(0).shape().num_elems());
}

void run_mean(op::KernelArgs& args) {
  run_sum(args);
  float* out = f32_out(args, 0);
  const std::int64_t kept = args.out(0).shape().num_elems();
  const auto count = static_cast<float>(args.in(0).shape().num_elems() / kept);
  function_loops().div.one_right(out, &count, out, kept);
}

}  // namespace

extern const op::KernelRow kMeanVector{
    .op = "mean", .name = "vector", .run = run_mean, .applicable = applicable, .workspace_bytes = workspace};
extern const op::KernelRow kSumVector{
    .op = "sum", .name = "vector", .run = run_sum, .applicable = applicable, .workspace_bytes = workspace};

}  // namespace trireme::kernel
