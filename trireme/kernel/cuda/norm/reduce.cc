// Reductions over any dimensions: sum, mean, max, min, prod, all, any, logsumexp, argmax, argmin.
//
// Dimensions of size 1 are dropped and neighbours of one kind merged, which leaves kept and folded ones in
// turns. Where the last one is folded, threads go along it (rows), else along the results (columns); either
// way neighbouring threads read neighbouring memory. Long folds are cut into parts by shape alone: a second
// kernel merges the parts in a fixed tree.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::kernel::cuda {

extern const char kNumberFoldText[];  // reduce_number.cu
extern const char kLogSumText[];      // reduce_log_sum.cu
extern const char kArgText[];         // reduce_arg.cu
extern const char kFoldText[];        // reduce.cu

namespace {

using op::detail::idx;
constexpr int kThreads = 256;
constexpr int kMaxTurns = 4;  // kept or folded dimensions in turns: half of kMaxRank

// ---- Texts

// A fold whose state is one number: what nothing comes to, how two are joined, what becomes of the last.
struct NumberFold {
  const char* op;
  const char* first;
  const char* join;  // of a and b, b the later one
  const char* last;  // of a
};
constexpr NumberFold kNumberFolds[] = {
    {"sum", "0", "(A)(wrap(a) + wrap(b))", "a"},
    {"mean", "0", "a + b", "a / (A)count"},
    {"prod", "1", "(A)(wrap(a) * wrap(b))", "a"},
    {"max", "lowest()", "b > a || b != b ? b : a", "a"},
    {"min", "highest()", "b < a || b != b ? b : a", "a"},
    {"all", "1", "a && b", "a"},
    {"any", "0", "a || b", "a"},
};

// ---- Shapes

struct Dims {  // as in the text
  std::int64_t size[kMaxTurns] = {}, stride[kMaxTurns] = {};
};

struct FoldPlan {
  Dims kept, folded;
  int num_kept = 0, num_folded = 0;
  std::int64_t results = 1, count = 1;
  bool by_rows = false;  // the last dimension is folded
  int pack = 1;
  Dim block{1, 1, 1};
  unsigned blocks = 1;
  std::int64_t parts = 1, part = 1;
};

void collapse(const Shape& shape, const op::detail::Axes& axes, FoldPlan& plan) {
  struct Turn {
    std::int64_t size;
    bool folded;
  };
  std::vector<Turn> turns;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool folded = axes.reduced[idx(d)];
    if (!turns.empty() && turns.back().folded == folded) {
      turns.back().size *= shape[d];
    } else {
      turns.push_back({shape[d], folded});
    }
  }
  std::int64_t stride = 1;
  for (const Turn& t : turns) (t.folded ? plan.num_folded : plan.num_kept) += 1;
  int kept = plan.num_kept, folded = plan.num_folded;
  for (std::size_t i = turns.size(); i-- > 0; stride *= turns[i].size) {
    Dims& dims = turns[i].folded ? plan.folded : plan.kept;
    const int at = turns[i].folded ? --folded : --kept;
    dims.size[at] = turns[i].size;
    dims.stride[at] = stride;
    (turns[i].folded ? plan.count : plan.results) *= turns[i].size;
  }
  plan.by_rows = !turns.empty() && turns.back().folded;
}

std::int64_t power_of_two_from(std::int64_t n, std::int64_t most) {
  std::int64_t p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

FoldPlan plan_fold(const TensorType& x, const op::detail::Axes& axes) {
  FoldPlan plan;
  collapse(x.shape, axes, plan);
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t along = 1, least = 1;  // threads x; elements that are worth a part
  if (plan.by_rows) {
    plan.pack = pack_width(x.dtype, plan.folded.size[plan.num_folded - 1]);
    const std::int64_t packs = plan.count / plan.pack;
    along = std::max(power_of_two_from(packs, 32), power_of_two_from(ceil_div(packs, 4), kThreads));
    plan.blocks = blocks_for(plan.results, static_cast<int>(kThreads / along), 1, 0x7fffffff);
    least = 4 * kThreads * plan.pack;
  } else {
    // At most 8, so that the states of a block fit into its shared memory.
    plan.pack = plan.num_kept > 0 ? std::min(pack_width(x.dtype, plan.kept.size[plan.num_kept - 1]), 8) : 1;
    along = power_of_two_from(plan.results / plan.pack, 32);
    plan.blocks = blocks_for(plan.results, static_cast<int>(along), plan.pack, 0x7fffffff);
    least = 8 * (kThreads / along);
  }
  plan.block = {static_cast<unsigned>(along), static_cast<unsigned>(kThreads / along), 1};
  const std::int64_t wanted = std::min<std::int64_t>(ceil_div(1024, plan.blocks), plan.count / least);
  plan.part = plan.count;
  if (wanted > 1) plan.part = ceil_div(ceil_div(plan.count, wanted), least) * least;
  if (plan.part > 0) plan.parts = ceil_div(plan.count, plan.part);
  return plan;
}

// ---- Making

// `fold`: State, first, take, join and last of the text.
Made make_fold(const CudaQuery& q, const op::detail::Axes& axes, std::string_view fold,
               std::size_t state_bytes) {
  const FoldPlan p = plan_fold(q.inputs[0], axes);
  const bool small = q.inputs[0].shape.num_elems() < (std::int64_t{1} << 30);
  const DType out = q.outputs[0].dtype == DType::kBool ? DType::kU8 : q.outputs[0].dtype;
  const std::string types =
      fmt::format("using I = {};\nusing Out = {};\n", small ? "u32" : "i64", cuda_type(out));
  const std::string text = typed_text(
      q.inputs[0].dtype, {{"kPack", p.pack}, {"kKeptDims", p.num_kept}, {"kFoldedDims", p.num_folded}},
      {types, kPackText, fold, kFoldText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, p.by_rows ? "fold_rows" : "fold_columns"));
  const Function* merge = nullptr;
  if (p.parts > 1) {
    TR_ASSIGN_OR_RETURN(merge, q.device.function(text, "merge_parts"));
  }
  const std::size_t bytes = p.parts > 1 ? idx(p.parts * p.results) * state_bytes : 0;
  return make_kernel(
      [p, f, merge](const CudaArgs& a) -> Status {
        if (p.results == 0) return ok_status();
        void *x = a.in(0).raw(), *y = a.out(0).raw(), *first = p.parts > 1 ? a.workspace : y;
        const Dim grid{p.blocks, static_cast<unsigned>(p.parts)};
        TR_RETURN_IF_ERROR(
            launch(a.stream, *f, grid, p.block, 0, x, first, p.kept, p.folded, p.results, p.count, p.part));
        if (p.parts <= 1) return ok_status();
        const auto along = static_cast<unsigned>(power_of_two_from(p.results, 32));
        return launch(a.stream, *merge, {blocks_for(p.results, static_cast<int>(along), 1, 0x7fffffff)},
                      {along, kThreads / along}, 0, first, y, p.results, p.parts, p.count);
      },
      bytes);
}

}  // namespace

Made make_reduce(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const op::detail::Axes axes, op::detail::resolve_axes(q.inputs[0], q.attrs));
  if (q.def.name == "logsumexp") return make_fold(q, axes, kLogSumText, 2 * sizeof(double));
  for (const NumberFold& fold : kNumberFolds) {
    if (q.def.name != fold.op) continue;
    const std::string text = fmt::format(
        "{}__device__ __forceinline__ State first() {{ return {}; }}\n"
        "__device__ __forceinline__ State join(State a, State b) {{ return {}; }}\n"
        "__device__ __forceinline__ Out last(State a, i64 count) {{ return narrow<Out>({}); }}\n",
        kNumberFoldText, fold.first, fold.join, fold.last);
    return make_fold(q, axes, text, sizeof(double));
  }
  return error(Code::kInternal, "[cuda] {} is no reduction", q.def.name);
}

Made make_arg_reduce(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]));
  op::detail::Axes axes;
  axes.reduced[idx(axis)] = true;
  const std::string text = fmt::format("constexpr bool kLargest = {};\n{}", q.def.name == "argmax", kArgText);
  return make_fold(q, axes, text, 2 * sizeof(double));
}

}  // namespace trireme::kernel::cuda
