// attention and its gradient: heads are cut over slices. A head goes through blocks of queries; the scores of
// a block against the keys that it sees are made by a gemm, turned into softmax row by row, and used by
// further gemms.
//   forward   S = Q K^T;  P = softmax(scale S);  Y = P V
//   backward  P again;  dP = dY V^T;  dS = scale P (dP - sum of P dP by rows);
//             dQ = dS K;  dK += dS^T Q;  dV += P^T dY
#include <algorithm>

#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/row_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/kernel/cpu/wide.h"
#include "trireme/op/op.h"
#include "trireme/op/sequence/attention.h"

namespace trireme::kernel {
namespace {

using op::detail::AttentionSizes;

// Causal blocks leave out the keys behind their last query: with fewer queries per block less is computed in
// vain, with more the gemms are faster.
constexpr std::int64_t kBlock = 64;

bool applicable(const op::KernelQuery& q) { return all_f32(q) && fits_int32(q) && gemm_usable(); }

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

// Elements of the scores of one block, in whole cache lines.
std::int64_t score_elems(const AttentionSizes& s) {
  return (std::min(kBlock, s.queries) * s.keys + 15) / 16 * 16;
}

// A pair of a query and a key costs about as much as touching depth / 8 elements.
int head_slices(const AttentionSizes& s, int width) {
  const std::int64_t heads = s.batch * s.heads;
  return num_slices(heads, heads * s.queries * s.keys * (s.depth + s.width) / 16, width);
}

template <int kMatrices>
std::size_t workspace(const op::KernelQuery& q) {
  const AttentionSizes s(q.inputs[0], q.inputs[1], q.inputs[2], q.attrs);
  return static_cast<std::size_t>(head_slices(s, q.width) * kMatrices * score_elems(s)) * sizeof(float);
}

// Queries [first, first + rows) of a head and the keys [0, keys) that the last of them sees.
struct Block {
  std::int64_t first, rows, keys;
};
Block block_at(const AttentionSizes& s, std::int64_t first) {
  const std::int64_t rows = std::min(kBlock, s.queries - first);
  return {first, rows, s.keys_of(first + rows - 1)};
}

// c [rows, keys] = a b^T, features along the rows of a and b.
void pair_up(const Block& b, const float* a, const float* keys, std::int64_t features, float* c) {
  gemm({.transpose_b = true,
        .m = b.rows,
        .n = b.keys,
        .k = features,
        .a = a + b.first * features,
        .lda = features,
        .b = keys,
        .ldb = features,
        .beta = 0,
        .c = c,
        .ldc = b.keys});
}

// p = the softmax of the scores of a block; 0 where a query does not see a key.
void attend(const AttentionSizes& s, const Block& b, const float* q, const float* k, float* p) {
  pair_up(b, q, k, s.depth, p);
  const RowLoops& loops = row_loops();
  for (std::int64_t i = 0; i < b.rows; ++i) {
    float* row = p + i * b.keys;
    const std::int64_t seen = s.keys_of(b.first + i);
    loops.softmax(row, static_cast<float>(s.scale), seen);
    std::fill(row + seen, row + b.keys, 0.0F);
  }
}

// out [rows, features] = p values, for the queries of a block.
void mix(const Block& b, const float* p, const float* values, std::int64_t features, float* out) {
  gemm({.m = b.rows,
        .n = features,
        .k = b.keys,
        .a = p,
        .lda = b.keys,
        .b = values,
        .ldb = features,
        .beta = 0,
        .c = out + b.first * features,
        .ldc = features});
}

// out [keys, features] += p^T rows, rows being those of the block; the first block of a head sets.
void spread(const Block& b, const float* p, const float* rows, std::int64_t features, bool sets, float* out) {
  gemm({.transpose_a = true,
        .m = b.keys,
        .n = features,
        .k = b.rows,
        .a = p,
        .lda = b.keys,
        .b = rows + b.first * features,
        .ldb = features,
        .beta = sets ? 0.0F : 1.0F,
        .c = out,
        .ldc = features});
}

void run_forward(op::KernelArgs& args) {
  const AttentionSizes s(args.in(0).type(), args.in(1).type(), args.in(2).type(), args.attrs);
  const float *q = f32_in(args, 0), *k = f32_in(args, 1), *v = f32_in(args, 2);
  float* y = f32_out(args, 0);
  auto* scores = reinterpret_cast<float*>(args.workspace.data());
  for_each_dynamic(args.parallel, s.batch * s.heads, head_slices(s, args.parallel.width()),
                   [&](std::int64_t h, int slice) {
                     float* p = scores + slice * score_elems(s);
                     for (std::int64_t first = 0; first < s.queries; first += kBlock) {
                       const Block b = block_at(s, first);
                       attend(s, b, q + h * s.queries * s.depth, k + h * s.keys * s.depth, p);
                       mix(b, p, v + h * s.keys * s.width, s.width, y + h * s.queries * s.width);
                     }
                   });
}

struct Head {
  const float *q, *k, *v, *dy;
  float *dq, *dk, *dv;
};

// From the last block, which sees every key that a query of the head sees, to the first.
void head_backward(const AttentionSizes& s, const Head& head, float* p, float* dp) {
  const RowLoops& loops = row_loops();
  const std::int64_t last = s.queries == 0 ? -1 : (s.queries - 1) / kBlock * kBlock;
  const std::int64_t seen = last < 0 ? 0 : block_at(s, last).keys;
  std::fill(head.dk + seen * s.depth, head.dk + s.keys * s.depth, 0.0F);
  std::fill(head.dv + seen * s.width, head.dv + s.keys * s.width, 0.0F);
  for (std::int64_t first = last; first >= 0; first -= kBlock) {
    const Block b = block_at(s, first);
    attend(s, b, head.q, head.k, p);
    pair_up(b, head.dy, head.v, s.width, dp);
    for (std::int64_t i = 0; i < b.rows; ++i) {
      float* row = dp + i * b.keys;
      const std::int64_t seen_by_i = s.keys_of(b.first + i);
      loops.softmax_grad(p + i * b.keys, row, static_cast<float>(s.scale), seen_by_i);
      std::fill(row + seen_by_i, row + b.keys, 0.0F);
    }
    mix(b, dp, head.k, s.depth, head.dq);
    spread(b, dp, head.q, s.depth, first == last, head.dk);
    spread(b, p, head.dy, s.width, first == last, head.dv);
  }
}

void run_backward(op::KernelArgs& args) {
  const AttentionSizes s(args.in(0).type(), args.in(1).type(), args.in(2).type(), args.attrs);
  const Head all{f32_in(args, 0),  f32_in(args, 1),  f32_in(args, 2), f32_in(args, 3),
                 f32_out(args, 0), f32_out(args, 1), f32_out(args, 2)};
  auto* scores = reinterpret_cast<float*>(args.workspace.data());
  const std::int64_t q_elems = s.queries * s.depth, y_elems = s.queries * s.width;
  const std::int64_t k_elems = s.keys * s.depth, v_elems = s.keys * s.width;
  for_each_dynamic(args.parallel, s.batch * s.heads, head_slices(s, args.parallel.width()),
                   [&](std::int64_t h, int slice) {
                     float* p = scores + slice * 2 * score_elems(s);
                     const Head head{all.q + h * q_elems,  all.k + h * k_elems,  all.v + h * v_elems,
                                     all.dy + h * y_elems, all.dq + h * q_elems, all.dk + h * k_elems,
                                     all.dv + h * v_elems};
                     head_backward(s, head, p, p + score_elems(s));
                   });
}

}  // namespace

extern const op::KernelRow kAttentionGemm{.op = "attention",
                                          .name = kGemmRowName,
                                          .run = run_forward,
                                          .applicable = applicable,
                                          .workspace_bytes = workspace<1>,
                                          .prepare = prepare};
extern const op::KernelRow kAttentionGradGemm{.op = "attention_grad",
                                              .name = kGemmRowName,
                                              .run = run_backward,
                                              .applicable = applicable,
                                              .workspace_bytes = workspace<2>,
                                              .prepare = prepare};
extern const op::KernelRow kAttentionWide = Wide<kAttentionGemm>::row("attention");
extern const op::KernelRow kAttentionGradWide = Wide<kAttentionGradGemm>::row("attention_grad");

}  // namespace trireme::kernel
