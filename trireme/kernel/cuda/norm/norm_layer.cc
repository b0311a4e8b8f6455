// layer_norm and its gradient. x is [rows, n]; a warp or a block has a row, which stays in registers up to
// some 16,000 elements. Formulas: op/nn/norm.h.
//
// In the gradient a block has a row. Every thread adds what its columns give to dscale and dbias over many
// rows; partial sums go to the workspace and a second kernel adds them in a fixed order. Rows too long for
// registers read x and dy again instead (norm_params). Rows are walked backwards: what the op before has
// written last is still in the cache, and what the op behind reads first will be.
#include <algorithm>

#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kLayerNormText[], kLayerNormGradText[];  // norm_layer.cu

namespace {

struct Rows {
  std::int64_t rows = 1, n = 1;
};
Rows rows_of(const CudaQuery& q) {
  Rows out;
  const Shape& shape = q.inputs[0].shape;
  const std::int64_t first = shape.rank() - q.attrs.get_int("num_axes");
  for (int d = 0; d < shape.rank(); ++d) (d < first ? out.rows : out.n) *= shape[d];
  return out;
}

}  // namespace

Made make_layer_norm(const CudaQuery& q) {
  const Rows s = rows_of(q);
  const RowPlan plan = plan_row(q.inputs[0].dtype, widest_bytes(q), s.n, true);
  const double eps = q.attrs.get_float("eps");
  const std::string text =
      norm_text(q, {{"kPack", plan.pack}}, {row_constants(plan), kPackText, kRowText, kLayerNormText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "layer_norm"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (s.rows == 0) return ok_status();
    return launch(a.stream, *f, {plan.blocks(s.rows)}, {static_cast<unsigned>(plan.block())},
                  plan.shared_bytes, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.out(0).raw(),
                  a.out(1).raw(), a.out(2).raw(), s.rows, s.n, eps);
  });
}

namespace {

// As in the text.
struct Operands {
  void *x, *scale, *means, *vars, *dy, *other, *dx, *copy;
};

// Threads of a row: two packs each, as long as there are enough threads.
struct GradPlan {
  int pack = 1, threads = 32, keep = 1, blocks = 1;  // blocks: of a multiprocessor at once
  bool kept = true;
};
GradPlan plan_grad(std::size_t widest, std::int64_t n) {
  constexpr int kMostThreads = 512, kMostPacks = 8, kAtOnce = 576;
  GradPlan p;
  p.pack = pack_width(widest, n);
  const std::int64_t packs = n / p.pack;
  p.threads = static_cast<int>(std::clamp<std::int64_t>((packs + 63) / 64 * 32, 32, kMostThreads));
  const std::int64_t keep = (packs + p.threads - 1) / p.threads;
  p.kept = keep <= kMostPacks;
  p.keep = p.kept ? static_cast<int>(std::max<std::int64_t>(keep, 1)) : 1;
  p.blocks = std::clamp(kAtOnce / p.threads, 1, 16);
  return p;
}

// sums: with `other`, a copy of the result and the sums of its columns.
Made make_grad(const CudaQuery& q, bool sums) {
  const Rows s = rows_of(q);
  const GradPlan plan = plan_grad(widest_bytes(q), s.n);
  const double eps = q.attrs.get_float("eps");
  const std::string text = norm_text(q,
                                     {{"kPack", plan.pack},
                                      {"kThreads", plan.threads},
                                      {"kKeep", plan.keep},
                                      {"kKept", plan.kept},
                                      {"kBlocks", plan.blocks},
                                      {"kSums", sums}},
                                     {kPackText, kLayerNormGradText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "layer_norm_grad"));
  const Function* params = nullptr;
  if (!plan.kept) {
    TR_ASSIGN_OR_RETURN(params, q.device.function(text, "norm_params"));
  }
  TR_ASSIGN_OR_RETURN(const Function* sum, q.device.function(text, "sum_parts"));
  // As many as the GPUs that this is made for run at once; a constant, so that sums do not depend on the GPU.
  const unsigned blocks = blocks_for(s.rows, 1, 1, 132U * static_cast<unsigned>(plan.blocks));
  const std::int64_t parts = s.rows == 0 ? 0 : plan.kept ? blocks : std::min<std::int64_t>(s.rows, 64);
  const std::int64_t lists = sums ? 3 : 2;
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (s.n == 0) return ok_status();
        const Operands o{a.in(0).raw(),  a.in(1).raw(),
                         a.in(2).raw(),  a.in(3).raw(),
                         a.in(4).raw(),  sums ? a.in(5).raw() : nullptr,
                         a.out(0).raw(), sums ? a.out(3).raw() : nullptr};
        void *work = a.workspace, *columns = sums ? a.out(4).raw() : nullptr;
        if (s.rows > 0)
          TR_RETURN_IF_ERROR(launch(a.stream, *f, {blocks}, {static_cast<unsigned>(plan.threads)}, 0, o, work,
                                    s.rows, s.n, eps));
        if (s.rows > 0 && !plan.kept)
          TR_RETURN_IF_ERROR(launch(a.stream, *params, {blocks_for(s.n, 256), static_cast<unsigned>(parts)},
                                    {256}, 0, o, work, s.rows, s.n, eps));
        return launch(a.stream, *sum, {blocks_for(lists * s.n, 32)}, {32, 32}, 0, work, a.out(1).raw(),
                      a.out(2).raw(), columns, s.n, parts);
      },
      static_cast<std::size_t>(parts * lists * s.n) * sizeof(double));
}

}  // namespace

Made make_layer_norm_grad(const CudaQuery& q) { return make_grad(q, false); }
Made make_layer_norm_grad_sum(const CudaQuery& q) { return make_grad(q, true); }

}  // namespace trireme::kernel::cuda
