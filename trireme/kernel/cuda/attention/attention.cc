// attention, attention_part and their gradients for any dtype and size: products by cuBLASLt around one
// kernel per row of scores.
//   forward   S = scale Q K^T;  P = softmax(S);  Y = P V
//   backward  S, P again;  dP = dY V^T;  dS = scale P (dP - sum of P dP by rows);
//             dQ = dS K;  dK = dS^T Q;  dV = P^T dY
// As many heads at a time as keep the scores within kMostScoreBytes. 16-bit operands are widened first: all
// in between is f32.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trireme/kernel/cuda/matmul/blas.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/sequence/attention.h"

namespace trireme::kernel::cuda {

extern const char kAttentionText[];  // attention.cu

namespace {

using op::detail::AttentionSizes;

constexpr std::int64_t kMostScoreBytes = std::int64_t{256} << 20U;
constexpr int kThreads = 256;

// One attention over `heads` heads at a time, `turns` times.
struct Plan {
  AttentionSizes s;
  DType dtype, wide;
  std::int64_t heads = 0, turns = 0;
  int begin = -1;  // the input that says where the queries begin among all of them; -1: they are all
  const Function *softmax = nullptr, *softmax_grad = nullptr, *widen = nullptr, *narrow = nullptr;

  std::int64_t query_elems() const { return heads * s.queries * s.depth; }
  std::int64_t key_elems() const { return heads * s.keys * s.depth; }
  std::int64_t value_elems() const { return heads * s.keys * s.width; }
  std::int64_t out_elems() const { return heads * s.queries * s.width; }
  std::int64_t score_elems() const { return heads * s.queries * s.keys; }
  bool widens() const { return dtype != wide; }
  std::size_t bytes(std::int64_t elems) const {  // in the workspace
    return (static_cast<std::size_t>(elems) * dtype_size(wide) + 255) / 256 * 256;
  }
  // C [m, n] of every head. 16-bit operands are exact in tf32, probabilities keep 10 bits; small ones are
  // cheap anyway.
  ProductSpec product(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, bool tf32) const {
    return {.dtype = wide,
            .transpose_a = ta,
            .transpose_b = tb,
            .m = m,
            .n = n,
            .k = k,
            .batch = heads,
            .stride_a = m * k,
            .stride_b = k * n,
            .stride_c = m * n,
            .tf32 = tf32 || (widens() && s.queries * s.keys > 128 * 128)};
  }
};

Result<Plan> plan_for(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  Plan p{AttentionSizes(q.inputs[0], q.inputs[1], q.inputs[2], q.attrs), dtype,
         dtype == DType::kF64 ? DType::kF64 : DType::kF32};
  if (q.def.name == "attention_part" || q.def.name == "attention_part_grad")
    p.begin = static_cast<int>(q.inputs.size()) - 1;
  const std::int64_t all = p.s.batch * p.s.heads;
  const auto per_head =
      static_cast<std::int64_t>(dtype_size(p.wide)) * std::max<std::int64_t>(p.s.queries * p.s.keys, 1);
  const std::int64_t most = std::max<std::int64_t>(kMostScoreBytes / per_head, 1);
  p.heads = std::min(all, most);
  while (p.heads > 1 && all % p.heads != 0) --p.heads;  // equal turns: one plan per product
  p.turns = all == 0 ? 0 : all / p.heads;
  const std::string text =
      fmt::format("typedef {} T;\ntypedef {} A;\n{}", cuda_type(dtype), cuda_type(p.wide), kAttentionText);
  TR_ASSIGN_OR_RETURN(p.softmax, q.device.function(text, "softmax_rows"));
  TR_ASSIGN_OR_RETURN(p.softmax_grad, q.device.function(text, "softmax_grad_rows"));
  TR_ASSIGN_OR_RETURN(p.widen, q.device.function(text, "widen"));
  TR_ASSIGN_OR_RETURN(p.narrow, q.device.function(text, "narrow"));
  return p;
}

// The part of the operands that one turn takes, as it is computed with: the operand itself or a wide copy in
// the workspace.
class Turn {
 public:
  Turn(const Plan& p, const CudaArgs& args, std::int64_t number)
      : p_(p), args_(args), number_(number), at_(args.workspace) {}

  std::byte* take(std::int64_t elems) {
    std::byte* const here = at_;
    at_ += p_.bytes(elems);
    return here;
  }
  std::byte* own(const Tensor& t, std::int64_t elems) const {
    return t.raw() + number_ * elems * static_cast<std::int64_t>(dtype_size(p_.dtype));
  }
  std::byte* read(const Tensor& t, std::int64_t elems) {
    if (!p_.widens()) return own(t, elems);
    std::byte* const copy = take(elems);
    if (elems > 0)
      note(launch(args_.stream, *p_.widen, {blocks_for(elems, kThreads, 4)}, {kThreads}, 0,
                  static_cast<const void*>(own(t, elems)), static_cast<void*>(copy), elems));
    return copy;
  }
  // Where to write what store() then rounds.
  std::byte* write(const Tensor& t, std::int64_t elems) { return p_.widens() ? take(elems) : own(t, elems); }
  void store(const Tensor& t, std::int64_t elems, const std::byte* from) {
    if (p_.widens() && elems > 0)
      note(launch(args_.stream, *p_.narrow, {blocks_for(elems, kThreads, 4)}, {kThreads}, 0,
                  static_cast<const void*>(from), static_cast<void*>(own(t, elems)), elems));
  }
  void multiply(const Product& product, const std::byte* a, const std::byte* b, std::byte* c,
                std::byte* workspace) {
    note(product.enqueue(args_.stream, a, b, c, nullptr, workspace));
  }
  // Rows of the kernel get their numbers in the type that is computed in.
  template <typename A>
  void rows(std::byte* scores, std::byte* grads) {
    if (p_.score_elems() == 0) return;
    constexpr A kInfinity = std::numeric_limits<A>::infinity();
    const Dim grid{static_cast<unsigned>(p_.heads * p_.s.queries)}, block{kThreads};
    auto* const s = reinterpret_cast<A*>(scores);
    auto* const d = reinterpret_cast<A*>(grads);
    const void* const begin = p_.begin < 0 ? nullptr : args_.in(p_.begin).raw();
    if (d == nullptr)
      note(launch(args_.stream, *p_.softmax, grid, block, 0, s, p_.s.queries, p_.s.keys, p_.s.causal, begin,
                  kInfinity));
    else
      note(launch(args_.stream, *p_.softmax_grad, grid, block, 0, s, d, p_.s.queries, p_.s.keys, p_.s.causal,
                  begin, static_cast<A>(p_.s.scale), kInfinity));
  }
  void softmax(std::byte* scores, std::byte* grads = nullptr) {
    return p_.wide == DType::kF64 ? rows<double>(scores, grads) : rows<float>(scores, grads);
  }
  const Status& status() const { return status_; }

 private:
  void note(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }
  const Plan& p_;
  const CudaArgs& args_;
  std::int64_t number_;
  std::byte* at_;
  Status status_;
};

}  // namespace

Made make_attention(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Plan p, plan_for(q));
  ProductSpec scores_spec = p.product(false, true, p.s.queries, p.s.keys, p.s.depth, q.tf32);
  scores_spec.alpha = p.s.scale;
  TR_ASSIGN_OR_RETURN(const Product scores, Product::make(q.device, scores_spec));
  TR_ASSIGN_OR_RETURN(const Product mix, Product::make(q.device, p.product(false, false, p.s.queries,
                                                                           p.s.width, p.s.keys, q.tf32)));
  const std::size_t blas_bytes = std::max(scores.workspace_bytes(), mix.workspace_bytes());
  std::size_t bytes = p.bytes(p.score_elems()) + blas_bytes;
  if (p.widens())
    bytes +=
        p.bytes(p.query_elems()) + p.bytes(p.key_elems()) + p.bytes(p.value_elems()) + p.bytes(p.out_elems());
  const auto enqueue = [p, scores, mix](const CudaArgs& args) -> Status {
    for (std::int64_t i = 0; i < p.turns; ++i) {
      Turn turn(p, args, i);
      const std::byte* query = turn.read(args.in(0), p.query_elems());
      const std::byte* key = turn.read(args.in(1), p.key_elems());
      const std::byte* value = turn.read(args.in(2), p.value_elems());
      std::byte* out = turn.write(args.out(0), p.out_elems());
      std::byte* s = turn.take(p.score_elems());
      std::byte* rest = turn.take(0);
      turn.multiply(scores, query, key, s, rest);
      turn.softmax(s);
      turn.multiply(mix, s, value, out, rest);
      turn.store(args.out(0), p.out_elems(), out);
      TR_RETURN_IF_ERROR(turn.status());
    }
    return {};
  };
  return make_kernel(enqueue, bytes);
}

namespace {

// The products of the backward pass, in the order they run.
struct Backward {
  Product scores, grads, value, query, key;

  static Result<Backward> make(const CudaQuery& q, const Plan& p) {
    const AttentionSizes& s = p.s;
    std::array<ProductSpec, 5> specs{p.product(false, true, s.queries, s.keys, s.depth, q.tf32),
                                     p.product(false, true, s.queries, s.keys, s.width, q.tf32),
                                     p.product(true, false, s.keys, s.width, s.queries, q.tf32),
                                     p.product(false, false, s.queries, s.depth, s.keys, q.tf32),
                                     p.product(true, false, s.keys, s.depth, s.queries, q.tf32)};
    specs[0].alpha = s.scale;
    Backward b;
    Product* const to[] = {&b.scores, &b.grads, &b.value, &b.query, &b.key};
    for (std::size_t i = 0; i < specs.size(); ++i) {
      TR_ASSIGN_OR_RETURN(*to[i], Product::make(q.device, specs[i]));
    }
    return b;
  }
  std::size_t workspace_bytes() const {
    return std::max({scores.workspace_bytes(), grads.workspace_bytes(), value.workspace_bytes(),
                     query.workspace_bytes(), key.workspace_bytes()});
  }
};

Status enqueue_backward(const Plan& p, const Backward& b, const CudaArgs& args, std::int64_t number) {
  Turn turn(p, args, number);
  const std::byte* query = turn.read(args.in(0), p.query_elems());
  const std::byte* key = turn.read(args.in(1), p.key_elems());
  const std::byte* value = turn.read(args.in(2), p.value_elems());
  const std::byte* dy = turn.read(args.in(3), p.out_elems());
  std::byte* dq = turn.write(args.out(0), p.query_elems());
  std::byte* dk = turn.write(args.out(1), p.key_elems());
  std::byte* dv = turn.write(args.out(2), p.value_elems());
  std::byte* s = turn.take(p.score_elems());
  std::byte* ds = turn.take(p.score_elems());
  std::byte* rest = turn.take(0);
  turn.multiply(b.scores, query, key, s, rest);
  turn.multiply(b.grads, dy, value, ds, rest);
  turn.softmax(s, ds);
  turn.multiply(b.value, s, dy, dv, rest);
  turn.multiply(b.query, ds, key, dq, rest);
  turn.multiply(b.key, ds, query, dk, rest);
  turn.store(args.out(0), p.query_elems(), dq);
  turn.store(args.out(1), p.key_elems(), dk);
  turn.store(args.out(2), p.value_elems(), dv);
  return turn.status();
}

}  // namespace

Made make_attention_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Plan p, plan_for(q));
  TR_ASSIGN_OR_RETURN(const Backward b, Backward::make(q, p));
  std::size_t bytes = 2 * p.bytes(p.score_elems()) + b.workspace_bytes();
  if (p.widens())
    bytes += 2 * (p.bytes(p.query_elems()) + p.bytes(p.key_elems()) + p.bytes(p.value_elems())) +
             p.bytes(p.out_elems());
  const auto enqueue = [p, b](const CudaArgs& args) -> Status {
    for (std::int64_t i = 0; i < p.turns; ++i) TR_RETURN_IF_ERROR(enqueue_backward(p, b, args, i));
    return {};
  };
  return make_kernel(enqueue, bytes);
}

}  // namespace trireme::kernel::cuda
