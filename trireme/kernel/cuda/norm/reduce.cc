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

constexpr const char* kNumberText = R"cuda(
__device__ u64 wrap(i64 v) { return v; }
__device__ u64 wrap(i32 v) { return (i64)v; }
__device__ u64 wrap(u8 v) { return v; }
__device__ float wrap(float v) { return v; }
__device__ double wrap(double v) { return v; }
__device__ void ends(i64& low, i64& high) { high = 0x7fffffffffffffffll; low = -high - 1; }
__device__ void ends(i32& low, i32& high) { high = 0x7fffffff; low = -high - 1; }
__device__ void ends(u8& low, u8& high) { low = 0; high = 255; }
__device__ void ends(float& low, float& high) { high = __int_as_float(0x7f800000); low = -high; }
__device__ void ends(double& low, double& high) { high = __int_as_float(0x7f800000); low = -high; }
__device__ A lowest() { A low, high; ends(low, high); return low; }
__device__ A highest() { A low, high; ends(low, high); return high; }
using State = A;
__device__ __forceinline__ State join(State a, State b);
__device__ __forceinline__ State take(State s, A v, i64) { return join(s, v); }
)cuda";

// top is the largest so far (NaN wins), sum that of exp(v - top) where top is finite.
constexpr const char* kLogSumText = R"cuda(
struct State { A top, sum; };
__device__ __forceinline__ State first() { return {-inf(), 0}; }
__device__ __forceinline__ State take(State s, A v, i64) {
  if (v != v || s.top != s.top) return {v + s.top, 0};
  if (v > s.top) return {v, s.sum * exp_of(s.top - v) + 1};
  if (v > -inf()) s.sum += exp_of(v - s.top);
  return s;
}
__device__ __forceinline__ State join(State a, State b) {
  const A top = b.top > a.top || b.top != b.top ? b.top : a.top;
  if (!is_finite(top)) return {top, 0};
  return {top, a.sum * exp_of(a.top - top) + b.sum * exp_of(b.top - top)};
}
__device__ __forceinline__ Out last(State s, i64) {
  return narrow<Out>(is_finite(s.top) ? s.top + log_of(s.sum) : s.top);
}
)cuda";

// The best so far: the first of ties, the first NaN if any. at < 0: nothing yet.
constexpr const char* kArgText = R"cuda(
struct State { A v; i64 at; };
__device__ __forceinline__ State first() { return {0, -1}; }
__device__ __forceinline__ State join(State a, State b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool a_nan = a.v != a.v, b_nan = b.v != b.v;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && a.v != b.v) return (kLargest ? b.v > a.v : b.v < a.v) ? b : a;
  return b.at < a.at ? b : a;
}
__device__ __forceinline__ State take(State s, A v, i64 at) { return join(s, {v, at}); }
__device__ __forceinline__ Out last(State s, i64) { return s.at; }
)cuda";

constexpr const char* kFoldText = R"cuda(
struct Dims { i64 size[4], stride[4]; };
template <int N> __device__ __forceinline__ I offset_of(const Dims& d, I i) {
  I at = 0;
#pragma unroll
  for (int k = N - 1; k > 0; --k) {
    const I size = (I)d.size[k];
    at += i % size * (I)d.stride[k];
    i /= size;
  }
  return N > 0 ? at + i * (I)d.stride[0] : 0;
}

// Merges tree[t], tree[t + step], tree[t + 2 step]... of `many` (a power of two) into tree[t].
__device__ __forceinline__ void merge_tree(State* tree, int t, int place, int many, int step) {
  for (int k = many / 2; k > 0; k /= 2) {
    __syncthreads();
    if (place < k) tree[t] = join(tree[t], tree[t + k * step]);
  }
}
// With one part the result, else the state of a part.
__device__ __forceinline__ void put(void* to, I at, State s, i64 count, bool whole) {
  if (whole) static_cast<Out*>(to)[at] = last(s, count);
  else static_cast<State*>(to)[at] = s;
}

// The folded elements from threadIdx (or its packs) on: f(packs of four loads), so that these are in flight together.
template <bool kAligned, class F>
__device__ __forceinline__ void fold_range(const T* base, const Dims& folded, I r, I end, I step, F f) {
  for (; r + 3 * step < end; r += 4 * step) {
    Packed p[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) p[u] = load_pack<kAligned>(base + offset_of<kFoldedDims>(folded, r + u * step));
#pragma unroll
    for (int u = 0; u < 4; ++u) f(p[u], r + u * step);
  }
  for (; r < end; r += step) f(load_pack<kAligned>(base + offset_of<kFoldedDims>(folded, r)), r);
}
template <class F>
__device__ __forceinline__ void fold_part(const T* x, I base, const Dims& folded, I first, I step, i64 count, i64 part, F f) {
  const I begin = (I)blockIdx.y * (I)part;
  const I end = begin + (I)part < (I)count ? begin + (I)part : (I)count;
  if (is_aligned(x)) fold_range<true>(x + base, folded, begin + first, end, step, f);
  else fold_range<false>(x + base, folded, begin + first, end, step, f);
}

// Threads x along the folded elements, threads y over results; blocks y over parts of `part` elements.
extern "C" __global__ void fold_rows(const T* x, void* out, Dims kept, Dims folded, i64 results, i64 count, i64 part) {
  __shared__ State tree[256];
  const I o = (I)blockIdx.x * blockDim.y + threadIdx.y;
  const bool mine = o < (I)results;
  State s = first();
  if (mine)
    fold_part(x, offset_of<kKeptDims>(kept, o), folded, (I)threadIdx.x * kPack, (I)blockDim.x * kPack, count, part,
              [&](const Packed& p, I r) {
#pragma unroll
                for (int v = 0; v < kPack; ++v) s = take(s, load_acc(p.v[v]), r + v);
              });
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
  tree[t] = s;
  merge_tree(tree, t, threadIdx.x, blockDim.x, 1);
  if (mine && threadIdx.x == 0) put(out, (I)blockIdx.y * (I)results + o, tree[t], count, gridDim.y == 1);
}

// Threads x along results, kPack each; threads y over the folded elements; blocks y over parts.
extern "C" __global__ void fold_columns(const T* x, void* out, Dims kept, Dims folded, i64 results, i64 count, i64 part) {
  __shared__ State tree[kPack][256];
  const I o = ((I)blockIdx.x * blockDim.x + threadIdx.x) * kPack;
  const bool mine = o < (I)results;
  State s[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) s[v] = first();
  if (mine)
    fold_part(x, offset_of<kKeptDims>(kept, o), folded, threadIdx.y, blockDim.y, count, part,
              [&](const Packed& p, I r) {
#pragma unroll
                for (int v = 0; v < kPack; ++v) s[v] = take(s[v], load_acc(p.v[v]), r);
              });
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    tree[v][t] = s[v];
    merge_tree(tree[v], t, threadIdx.y, blockDim.y, blockDim.x);
    if (mine && threadIdx.y == 0) put(out, (I)blockIdx.y * (I)results + o + v, tree[v][t], count, gridDim.y == 1);
  }
}

// Threads x along results, threads y over the parts of one.
extern "C" __global__ void merge_parts(const State* parts, void* out, i64 results, i64 num_parts, i64 count) {
  __shared__ State tree[256];
  const i64 o = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  State s = first();
  if (o < results)
    for (i64 k = threadIdx.y; k < num_parts; k += blockDim.y) s = join(s, parts[k * results + o]);
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
  tree[t] = s;
  merge_tree(tree, t, threadIdx.y, blockDim.y, blockDim.x);
  if (o < results && threadIdx.y == 0) put(out, o, tree[t], count, true);
}
)cuda";

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
      {types, pack_text(), fold, kFoldText});
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
        kNumberText, fold.first, fold.join, fold.last);
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
