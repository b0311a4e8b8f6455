// Gradients of attention_grad: its kernel on dual numbers along (uq, uk, uv), see dual.h. Has no gradient of
// its own, so attention can be differentiated twice.
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const TensorType y, infer_attention(in, attrs));
  TR_RETURN_IF_ERROR(expect_type("dy", in[3], y));
  TR_RETURN_IF_ERROR(expect_type("uq", in[4], in[0]));
  TR_RETURN_IF_ERROR(expect_type("uk", in[5], in[1]));
  TR_RETURN_IF_ERROR(expect_type("uv", in[6], in[2]));
  return std::vector{in[0], in[1], in[2], y};
}

void run(KernelArgs& a) {
  const AttentionSizes s(a.in(0).type(), a.in(1).type(), a.in(2).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Dual<Acc<T>>;
    Scratch<N> scratch(a.workspace);
    AttentionHead<N> head(s, scratch, true);
    for_each_head(s, [&](std::int64_t b, std::int64_t h) {
      N* const arrays[] = {head.q, head.k, head.v};
      for (int i = 0; i < 3; ++i) {
        load<T>(head_of(a.in(i), b, h), arrays[i]);
        load_tangent<T>(head_of(a.in(4 + i), b, h), arrays[i]);
      }
      load<T>(head_of(a.in(3), b, h), head.dy);
      head.backward(s);
      store(head.dq, head_out<T>(a.out(0), b, h), s.queries * s.depth);
      store(head.dk, head_out<T>(a.out(1), b, h), s.keys * s.depth);
      store(head.dv, head_out<T>(a.out(2), b, h), s.keys * s.width);
      store(head.y, head_out<T>(a.out(3), b, h), s.queries * s.width);
    });
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  const Tally t = attention_gradients(s) + Tally::multiply_adds(static_cast<double>(s.width));
  return attention_cost(in, out, s, t, true);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  return attention_layout(attrs, {true, false, false, true, true, false, false}, {true, false, false, true});
}
}  // namespace

const OpDef kAttentionGradGrad{
    .name = "attention_grad_grad",
    .doc = "Gradients of <u, attention_grad(q, k, v, dy)> for (q, k, v, dy), from these and u.",
    .family = "sequence",
    .num_inputs = 7,
    .num_outputs = 4,
    .attrs = attention_attrs(),
    .infer = infer,
    .reference = run,
    .reference_workspace = attention_workspace<true, true>,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
