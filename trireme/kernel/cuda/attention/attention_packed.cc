// attention_qkv and its gradient for any dtype and size: a block per query, or per key, with the scores made
// again wherever they are needed. Slow, and only for what attention_fused.cc does not take.
#include <fmt/format.h>

#include <limits>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/sequence/attention_qkv.h"

namespace trireme::kernel::cuda {

extern const char kAttentionPackedText[];  // attention_packed.cu

namespace {

using op::detail::AttentionSizes;

constexpr int kThreads = 128;

// As the text has it.
template <typename A>
struct Sizes {
  std::int64_t tokens, heads, depth;
  A scale, infinity;
  bool causal;
  explicit Sizes(const AttentionSizes& s)
      : tokens(s.queries),
        heads(s.heads),
        depth(s.depth),
        scale(static_cast<A>(s.scale)),
        infinity(std::numeric_limits<A>::infinity()),
        causal(s.causal) {}
};

struct Plan {
  AttentionSizes s;
  bool wide;
  std::string text;

  explicit Plan(const CudaQuery& q)
      : s(op::detail::packed_sizes(q.inputs[0], q.attrs)),
        wide(q.inputs[0].dtype == DType::kF64),
        text(fmt::format("typedef {} T;\ntypedef {} A;\nconstexpr int THREADS = {};\n{}",
                         cuda_type(q.inputs[0].dtype), wide ? "double" : "float", kThreads,
                         kAttentionPackedText)) {}

  template <typename... Pointers>
  Status run(CudaStream& stream, const Function& f, Pointers... pointers) const {
    const Dim grid{static_cast<unsigned>(s.batch * s.heads * s.queries)}, block{kThreads};
    if (grid.x == 0) return {};
    return wide ? launch(stream, f, grid, block, 0, pointers..., Sizes<double>(s))
                : launch(stream, f, grid, block, 0, pointers..., Sizes<float>(s));
  }
};

void* address(const Tensor& t) { return t.raw(); }

}  // namespace

Made make_attention_qkv(const CudaQuery& q) {
  const Plan p(q);
  TR_ASSIGN_OR_RETURN(const Function* const attend, q.device.function(p.text, "attend"));
  const auto enqueue = [p, attend](const CudaArgs& a) {
    return p.run(a.stream, *attend, address(a.in(0)), address(a.out(0)), address(a.out(1)));
  };
  return make_kernel(enqueue);
}

Made make_attention_qkv_grad(const CudaQuery& q) {
  const Plan p(q);
  TR_ASSIGN_OR_RETURN(const Function* const queries, q.device.function(p.text, "query_grads"));
  TR_ASSIGN_OR_RETURN(const Function* const keys, q.device.function(p.text, "key_grads"));
  const auto enqueue = [p, queries, keys](const CudaArgs& a) -> Status {
    for (const Function* const f : {queries, keys})
      TR_RETURN_IF_ERROR(p.run(a.stream, *f, address(a.in(0)), address(a.in(1)), address(a.in(2)),
                               address(a.in(3)), address(a.out(0))));
    return {};
  };
  return make_kernel(enqueue);
}

}  // namespace trireme::kernel::cuda
